"""Make inputs plain: ones or other plain values in place of stored and of random ones, no strides, no gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from repro_kit.program import Data, TensorInput
from repro_kit.program.inputs import ZERO_TENSOR, DataKind
from repro_kit.program.plain_values import plainer, plainest
from repro_kit.program.program_edits import ChangeInput, Edit, SetInput
from repro_kit.program.stored_inputs import generate_values, record_of, set_values, stored_inputs
from repro_kit.program.value_records import TensorRecord, constants, is_contiguous
from repro_kit.reduce.adaptive import sweep
from repro_kit.reduce.search_state import Proposal, Search

_CHOSEN = ("randn", "rand", "zeros", "ones", "full", "randint", "arange")  # data in the dtype that the line chooses
_FLOATS: tuple[DataKind, ...] = ("randn", "rand", "ones", "zeros")
_FEW = 6  # inputs whose values are made plain one at a time


def generate(search: Search) -> None:
    """Replace stored values by ones, else by random ones, so that the repro needs no user data."""
    if search.first([[*_generated(search), *ones(search)]]) is not None:
        return
    stored = {line.name: record for line, record in stored_inputs(search.program, search.metadata)}

    def propose(names: list[str]) -> Proposal:
        return [generate_values(name, stored[name]) for name in names]

    sweep(search, list(stored), propose)  # type: ignore[arg-type]
    for line, record in list(stored_inputs(search.program, search.metadata)):
        search.first([set_values(line.name, record, data)] for data in _further(record))


def ones(search: Search) -> list[Edit]:
    """Edits that make the values of every input ones, or zeros where they are whole numbers."""
    return [ChangeInput(line.name, plainest) for line in _tensors(search)]


def plain_values(search: Search) -> None:
    """Replace random values by plainer ones: of all inputs at once, then of one at a time."""
    forms = {line.name: forms for line in _tensors(search) if (forms := _plainer_values(search, line))}
    most = max(map(len, forms.values()), default=0)
    search.first([_change(name, each[min(at, len(each) - 1)]) for name, each in forms.items()] for at in range(most))
    if 1 < len(forms) <= _FEW:
        for name, each in forms.items():
            search.first([_change(name, form)] for form in each)


def _plainer_values(search: Search, line: TensorInput) -> list[TensorInput]:
    return list(plainer(line, record_of(search.program, search.metadata, line.name)))


def _change(name: str, form: TensorInput) -> Edit:
    return SetInput(name, {"data": form.data, "dtype": form.dtype})


def without_specialties(search: Search) -> list[Edit]:
    """Edits that give every input random values at least, and none of the properties that most failures do not need."""
    edits = _generated(search)
    for line in _tensors(search):
        edits += filter(None, (plain(search, line) for plain in _PLAIN))
    return edits


def _generated(search: Search) -> list[Edit]:
    stored = stored_inputs(search.program, search.metadata)
    return [generate_values(line.name, record) for line, record in stored]


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

        def propose(names: list[str], plain: _Plain = plain) -> Proposal:
            edits = [plain(search, line) for line in _tensors(search) if line.name in names]
            return [edit for edit in edits if edit is not None]

        sweep(search, [line.name for line in _tensors(search) if plain(search, line)], propose)  # type: ignore[arg-type]


def dtypes(search: Search) -> None:
    """Give generated inputs the default dtype."""
    special = [tensor.name for tensor in _tensors(search) if tensor.dtype is not None and _has_default(tensor)]

    def propose(names: list[str]) -> Proposal:
        return [SetInput(name, {"dtype": None}) for name in names]

    sweep(search, special, propose)  # type: ignore[arg-type]


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
        return SetInput(line.name, {"strided": None})
    if (line.strided is None and line.base is None) or line.data.kind == "load" or record is None:
        return None
    data = generate_values(line.name, record)
    return SetInput(line.name, {"data": data.data, "strided": None, "dtype": data.dtype, "device": data.device})


def _without_bits(_: Search, line: TensorInput) -> Edit | None:
    if line.data.kind == ZERO_TENSOR:
        return SetInput(line.name, {"data": replace(line.data, kind="zeros")})
    return SetInput(line.name, {"bits": ()}) if line.bits else None


def _without_gradient(_: Search, line: TensorInput) -> Edit | None:
    return SetInput(line.name, {"requires_grad": False, "parameter": False}) if line.requires_grad else None


def _without_parameter(_: Search, line: TensorInput) -> Edit | None:
    return SetInput(line.name, {"parameter": False}) if line.parameter else None


def _without_buffer(_: Search, line: TensorInput) -> Edit | None:
    return SetInput(line.name, {"buffer": False}) if line.buffer else None


_PLAIN: tuple[_Plain, ...] = (_contiguous, _without_bits, _without_gradient, _without_parameter, _without_buffer)
