"""The total order that decides which of two programs is smaller."""

from __future__ import annotations

from repro_kit.model.recipe import Recipe
from repro_kit.model.serialize import to_data
from repro_kit.program import DynamicMark, Input, OpaqueInput, Program, TensorInput, size
from repro_kit.program.inputs import ZERO_TENSOR
from repro_kit.program.value_records import Metadata, TensorRecord
from repro_kit.reduce.candidate_search import Measure


def measure(program: Program, metadata: Metadata, text: str) -> Measure:
    """The criteria, most important first; tuples compare lexicographically, and smaller is better.

    Compute statements, calls, inputs, outputs; stored inputs (a literal counts half); elements of inputs; special
    properties of inputs (strides, aliasing, gradients, marks); recipe settings; ranks; threads; literals; length of
    `text`.
    """
    functions = list(program.all_functions())
    lines = [input_ for input_ in program.all_inputs() if not isinstance(input_, DynamicMark)]
    return (
        size(program),
        len(program.calls),
        len(lines),
        len(program.graph.outputs),
        sum(map(_stored, lines)),
        sum(_elements(line, metadata) for line in lines),
        sum(map(_special, program.all_inputs())),
        settings(program.recipe),
        program.recipe.group.size if program.recipe.group else 0,
        program.recipe.threads or 0,
        sum(statement.constants for function in functions for statement in (*function.statements, function.returns)),
        len(text),
    )


def settings(recipe: Recipe) -> int:
    """The number of settings that are not at their default; each entry of a dict or list counts."""
    return sum(len(value) if isinstance(value, dict | list) else 1 for value in to_data(recipe).values())


def _stored(line: Input) -> int:
    if isinstance(line, TensorInput):
        return {"load": 2, "tensor": 1}.get(line.data.kind, 0)
    return 2 * isinstance(line, OpaqueInput)


def _elements(line: Input, metadata: Metadata) -> int:
    if not isinstance(line, TensorInput):
        return 0
    if line.elements is not None:
        return line.elements
    record = metadata.get(line.name)
    return record.elements if isinstance(record, TensorRecord) else 0


def _special(line: Input) -> int:
    if not isinstance(line, TensorInput):
        return int(isinstance(line, DynamicMark))
    marks = (line.strided is not None, line.base is not None, line.requires_grad, line.parameter, line.buffer)
    return sum(marks) + len(line.bits) + (line.data.kind == ZERO_TENSOR)
