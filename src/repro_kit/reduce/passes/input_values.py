"""Make inputs plain: ones or other plain values in place of stored and of random ones, no strides, no gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from repro_kit.program import Data, TensorInput
from repro_kit.program.inputs import ZERO_TENSOR, DataKind
from repro_kit.program.plain_values import plainer, plainest
from repro_kit.program.program_edits import set_input
from repro_kit.program.rebuild import Edit
from repro_kit.program.stored_inputs import generate_values, options_of, record_of, set_values, stored_inputs
from repro_kit.program.value_records import TensorRecord, constants, generated, is_contiguous
from repro_kit.reduce.adaptive import each, sweep
from repro_kit.reduce.search_state import Proposal, Search

_CHOSEN = ("randn", "rand", "zeros", "ones", "full", "randint", "arange")  # data in the dtype that the line chooses
_FLOATS: tuple[DataKind, ...] = ("randn", "rand", "ones", "zeros")
_FEW = 6  # inputs whose values are made plain one at a time


def generate(search: Search) -> None:
    """Replace stored values by ones, else by random ones, so that the repro needs no user data."""
    if search.first([_generated(search) + ones(search)]) is not None:
        return
    stored = {line.name: record for line, record in stored_inputs(search.program, search.metadata)}
    sweep(search, list(stored), lambda names: _sum(generate_values(name, stored[name]) for name in names))
    left = list(stored_inputs(search.program, search.metadata))
    each(search, ((set_values(line.name, record, data) for data in _further(record)) for line, record in left))


def _sum(edits: Iterable[Edit]) -> Edit:
    return sum(edits, Edit())


def ones(search: Search) -> Edit:
    """The values of every input as ones, or as zeros where they are whole numbers."""
    return Edit(inputs={line.name: (plainest,) for line in _tensors(search)})


def plain_values(search: Search) -> None:
    """Replace random values by plainer ones: of all inputs at once, then of one at a time."""
    forms = {line.name: forms for line in _tensors(search) if (forms := _plainer_values(search, line))}
    most = max(map(len, forms.values()), default=0)
    search.first(_sum(forms_of[min(at, len(forms_of) - 1)] for forms_of in forms.values()) for at in range(most))
    if 1 < len(forms) <= _FEW:
        each(search, forms.values())


def _plainer_values(search: Search, line: TensorInput) -> list[Edit]:
    forms = plainer(line, record_of(search.program, search.metadata, line.name))
    return [set_input(line.name, data=form.data, dtype=form.dtype) for form in forms]


def without_specialties(search: Search) -> Edit:
    """Random values at least for every input, and none of the properties that most failures do not need."""
    edits = (plain(search, line) for line in _tensors(search) for plain in _PLAIN)
    return _generated(search) + _sum(edit for edit in edits if edit is not None)


def _generated(search: Search) -> Edit:
    return _sum(generate_values(line.name, record) for line, record in stored_inputs(search.program, search.metadata))


def _further(record: TensorRecord) -> Iterator[Data]:
    """Other ways to generate values, for when the likeliest one does not fail alike."""
    if "float" in record.dtype or "complex" in record.dtype:
        yield from (Data(kind, record.shape) for kind in _FLOATS)
    else:
        yield Data("zeros", record.shape)
        yield Data("ones", record.shape)
        if record.dtype != "torch.bool":
            yield Data("arange", record.shape)
    yield from constants(record)


def plain_inputs(search: Search) -> None:
    """Drop strides, aliasing, bits, gradients and parameter marks wherever the failure allows it."""
    for plain in _PLAIN:

        def propose(names: Sequence[str], plain: _Plain = plain) -> Proposal:
            edits = [plain(search, line) for line in _tensors(search) if line.name in names]
            return _sum(edit for edit in edits if edit is not None)

        sweep(search, [line.name for line in _tensors(search) if plain(search, line)], propose)


def dtypes(search: Search) -> None:
    """Give generated inputs the default dtype."""
    special = [tensor.name for tensor in _tensors(search) if tensor.dtype is not None and _has_default(tensor)]
    sweep(search, special, lambda names: _sum(set_input(name, dtype=None) for name in names))


def _has_default(line: TensorInput) -> bool:
    """Whether the line chooses its dtype, and may leave that to the default; floats in order would become integers."""
    return line.data.kind in _CHOSEN and (line.data.kind != "arange" or "int" in (line.dtype or ""))


_Plain = Callable[[Search, TensorInput], Edit | None]


def _tensors(search: Search) -> list[TensorInput]:
    return [line for line in search.program.inputs if isinstance(line, TensorInput)]


def _contiguous(search: Search, line: TensorInput) -> Edit | None:
    record = record_of(search.program, search.metadata, line.name)
    strided, whole = line.strided, line.data.sizes
    if strided is not None and strided.shape == whole and is_contiguous(whole, strided.stride):
        return set_input(line.name, strided=None)
    if (line.strided is None and line.base is None) or line.data.kind == "load" or record is None:
        return None
    dtype, device = options_of(record)
    return set_input(line.name, data=generated(record, record.shape), strided=None, dtype=dtype, device=device)


def _without_bits(_: Search, line: TensorInput) -> Edit | None:
    if line.data.kind == ZERO_TENSOR:
        return set_input(line.name, data=replace(line.data, kind="zeros"))
    return set_input(line.name, bits=()) if line.bits else None


def _without_gradient(_: Search, line: TensorInput) -> Edit | None:
    return set_input(line.name, requires_grad=False, parameter=False) if line.requires_grad else None


def _without_parameter(_: Search, line: TensorInput) -> Edit | None:
    return set_input(line.name, parameter=False) if line.parameter else None


def _without_buffer(_: Search, line: TensorInput) -> Edit | None:
    return set_input(line.name, buffer=False) if line.buffer else None


_PLAIN: tuple[_Plain, ...] = (_contiguous, _without_bits, _without_gradient, _without_parameter, _without_buffer)
