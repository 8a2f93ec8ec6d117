"""Make inputs plain: generated values in place of stored ones, no strides, no gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from repro_kit.program import Data, TensorInput
from repro_kit.program.inputs import DataKind, names_of
from repro_kit.program.program_edits import Edit, SetData, SetInput
from repro_kit.program.value_records import TensorRecord, generated, is_contiguous, span
from repro_kit.reduce.adaptive import sweep
from repro_kit.reduce.search_state import Proposal, Search

_CHOSEN = ("randn", "rand", "zeros", "ones", "full", "randint", "arange")  # data in the dtype that the line chooses
_FLOATS: tuple[DataKind, ...] = ("randn", "rand", "ones", "zeros")


def generate(search: Search) -> None:
    """Replace stored values by generated ones, so that the repro needs no user data."""
    stored = {line.name: record for line, record in _stored(search)}

    def propose(names: list[str]) -> Proposal:
        return [_generate(name, stored[name]) for name in names]

    sweep(search, list(stored), propose)  # type: ignore[arg-type]
    for line, record in list(_stored(search)):
        search.first([_set(line.name, record, data)] for data in _further(record))


def plainest(search: Search) -> list[Edit]:
    """Edits that make every input as plain as possible."""
    edits: list[Edit] = [_generate(line.name, record) for line, record in _stored(search)]
    for line in _tensors(search):
        edits += filter(None, (plainer(search, line) for plainer in _PLAINER))
    return edits


def _stored(search: Search) -> Iterator[tuple[TensorInput, TensorRecord]]:
    """Inputs with stored values, each with the metadata of the stored tensor."""
    lines = [line for line in search.program.inputs if isinstance(line, TensorInput)]
    for line in lines:
        if line.data.kind not in ("load", "tensor"):
            continue
        record = _record(search, line.name)
        if record is None:
            views = [(view, _record(search, view.name)) for view in lines if view.base == line.name and view.strided]
            ends = [view.offset + span(view.shape or (), view.stride or ()) for view, _ in views]
            view_record = next((candidate for _, candidate in views if candidate is not None), None)
            record = replace(view_record, shape=(max(ends),), stride=(1,)) if view_record is not None else None
        if record is None and line.strided is not None:
            record = _of_results(search, line.name)
        if record is None:
            continue
        if line.strided is not None:
            shape, stride = line.strided.shape, line.strided.stride
            plain = not line.offset and is_contiguous(shape, stride)
            record = replace(record, shape=shape if plain else (line.offset + span(shape, stride),), stride=(1,))
        yield line, record


def _of_results(search: Search, name: str) -> TensorRecord | None:
    """The metadata of the first argument that is made of the input `name`, through other inputs; None without one."""
    made = [name]
    for line in search.program.inputs:
        if set(line.reads) & set(made):
            made += names_of(line)
    return next((record for argument in made if (record := _record(search, argument)) is not None), None)


def _record(search: Search, argument: str) -> TensorRecord | None:
    """The metadata of the parameter that `argument` is passed to; None when it is not known to be a tensor."""
    for call in search.program.calls:
        for param, name in zip(search.program.graph.params, call, strict=True):
            record = search.metadata.get(param)
            if name == argument and isinstance(record, TensorRecord):
                return record
    return None


def _generate(name: str, record: TensorRecord) -> Edit:
    return _set(name, record, generated(record, record.shape))


def _set(name: str, record: TensorRecord, data: Data) -> SetData:
    dtype = None if record.dtype == "torch.float32" else record.dtype
    return SetData(name, data, dtype, None if record.device == "cpu" else record.device)


def _further(record: TensorRecord) -> Iterator[Data]:
    """Other ways to generate values, for when the likeliest one does not fail alike."""
    if "float" in record.dtype or "complex" in record.dtype:
        yield from (Data(kind, record.shape) for kind in _FLOATS)
    else:
        yield Data("zeros", record.shape)
        yield Data("ones", record.shape)
        if record.dtype != "torch.bool":
            yield Data("arange", record.shape)


def plain_inputs(search: Search) -> None:
    """Drop strides, aliasing, gradients and parameter marks wherever the failure allows it."""
    for plainer in _PLAINER:

        def propose(names: list[str], plainer: _Plainer = plainer) -> Proposal:
            edits = [plainer(search, line) for line in _tensors(search) if line.name in names]
            return [edit for edit in edits if edit is not None]

        sweep(search, [line.name for line in _tensors(search) if plainer(search, line)], propose)  # type: ignore[arg-type]


def dtypes(search: Search) -> None:
    """Give generated inputs the default dtype."""
    special = [tensor.name for tensor in _tensors(search) if tensor.dtype is not None and tensor.data.kind in _CHOSEN]

    def propose(names: list[str]) -> Proposal:
        return [SetInput(name, {"dtype": None}) for name in names]

    sweep(search, special, propose)  # type: ignore[arg-type]


_Plainer = Callable[[Search, TensorInput], Edit | None]


def _tensors(search: Search) -> list[TensorInput]:
    return [line for line in search.program.inputs if isinstance(line, TensorInput)]


def _contiguous(search: Search, line: TensorInput) -> Edit | None:
    record = _record(search, line.name)
    strided, whole = line.strided, line.data.sizes
    if strided is not None and strided.shape == whole and is_contiguous(whole, strided.stride):
        return SetInput(line.name, {"strided": None})
    if (line.strided is None and line.base is None) or line.data.kind == "load" or record is None:
        return None
    data = _set(line.name, record, generated(record, record.shape))
    return SetInput(line.name, {"data": data.data, "strided": None, "dtype": data.dtype, "device": data.device})


def _without_gradient(_: Search, line: TensorInput) -> Edit | None:
    return SetInput(line.name, {"requires_grad": False, "parameter": False}) if line.requires_grad else None


def _without_parameter(_: Search, line: TensorInput) -> Edit | None:
    return SetInput(line.name, {"parameter": False}) if line.parameter else None


_PLAINER: tuple[_Plainer, ...] = (_contiguous, _without_gradient, _without_parameter)
