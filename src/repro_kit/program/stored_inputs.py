"""Inputs of a program with stored values, and the edits that generate values for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from repro_kit.program.inputs import Data, TensorInput, names_of
from repro_kit.program.program import Program
from repro_kit.program.rebuild import Edit
from repro_kit.program.value_records import Metadata, TensorRecord, generated, is_contiguous, span


def stored_inputs(program: Program, metadata: Metadata) -> Iterator[tuple[TensorInput, TensorRecord]]:
    """Inputs with stored values, each with the metadata of the stored tensor. `metadata`: by the names in `graph`."""
    lines = [line for line in program.inputs if isinstance(line, TensorInput)]
    for line in lines:
        if line.data.kind not in ("load", "tensor"):
            continue
        record = record_of(program, metadata, line.name)
        if record is None:
            views = [
                (view, record_of(program, metadata, view.name))
                for view in lines
                if view.base == line.name and view.strided
            ]
            ends = [view.offset + span(view.shape or (), view.stride or ()) for view, _ in views]
            view_record = next((candidate for _, candidate in views if candidate is not None), None)
            record = replace(view_record, shape=(max(ends),), stride=(1,)) if view_record is not None else None
        if record is None:
            record = _of_results(program, metadata, line.name)
        if record is None:
            continue
        if line.strided is not None:
            shape, stride = line.strided.shape, line.strided.stride
            plain = not line.offset and is_contiguous(shape, stride)
            record = replace(record, shape=shape if plain else (line.offset + span(shape, stride),), stride=(1,))
        yield line, record


def generate_values(name: str, record: TensorRecord) -> Edit:
    """The edit that gives the input `name` generated values like those of `record`."""
    return set_values(name, record, generated(record, record.shape))


def set_values(name: str, record: TensorRecord, data: Data) -> Edit:
    """The edit that gives the input `name`, so far with the stored tensor of `record`, the values of `data`."""
    dtype, device = options_of(record)

    def change(line: TensorInput) -> TensorInput:
        return replace(line, data=data, dtype=line.dtype or dtype, device=line.device or device)

    return Edit(inputs={name: (change,)})


def options_of(record: TensorRecord) -> tuple[str | None, str | None]:
    """The dtype and the device that the line of a generated tensor needs; None: the default."""
    return (
        None if record.dtype == "torch.float32" else record.dtype,
        None if record.device == "cpu" else record.device,
    )


def _of_results(program: Program, metadata: Metadata, name: str) -> TensorRecord | None:
    """The metadata of the first argument that is made of the input `name`, through other inputs; None without one.

    A copy (``x = x_start.clone()``) has the shape of the input; the line of any other input states a shape.
    """
    made = [name]
    for line in program.inputs:
        if set(line.reads) & set(made):
            made += names_of(line)
    return next((record for argument in made if (record := record_of(program, metadata, argument)) is not None), None)


def record_of(program: Program, metadata: Metadata, argument: str) -> TensorRecord | None:
    """The metadata of the parameter that `argument` is passed to; None when it is not known to be a tensor."""
    for call in program.calls:
        for param, name in zip(program.graph.params, call, strict=True):
            record = metadata.get(param)
            if name == argument and isinstance(record, TensorRecord):
                return record
    return None
