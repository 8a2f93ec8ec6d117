"""The total order that decides which of two programs is smaller."""

from __future__ import annotations

from repro_kit.model.recipe import Recipe
from repro_kit.model.serialize import to_data
from repro_kit.program import DynamicMark, Input, OpaqueInput, Program, TensorInput, size
from repro_kit.program.inputs import ZERO_TENSOR
from repro_kit.program.plain_values import is_long_literal, rank
from repro_kit.program.value_records import Metadata, TensorRecord
from repro_kit.reduce.candidate_search import Measure


def measure(program: Program, metadata: Metadata, text: str) -> Measure:
    """The criteria, most important first; tuples compare lexicographically, and smaller is better.

    Compute statements, calls, inputs, outputs; stored inputs (a long literal counts half); elements of inputs; special
    properties of inputs (strides, aliasing, gradients, marks); how far values are from ones; recipe settings; ranks;
    threads; literals, and the sum of the whole numbers among them; length of `text`.
    """
    functions = program.all_functions()
    statements = [statement for function in functions for statement in (*function.statements, function.returns)]
    lines = [input_ for input_ in program.all_inputs() if not isinstance(input_, DynamicMark)]
    return (
        size(program),
        len(program.calls),
        len(lines),
        len(program.graph.outputs),
        sum(map(_stored, lines)),
        sum(_elements(line, metadata) for line in lines),
        sum(map(_special, program.all_inputs())),
        sum(map(_values, lines)) + (program.recipe.backward == "randn"),
        settings(program.recipe),
        program.recipe.group.size if program.recipe.group else 0,
        program.recipe.threads or 0,
        sum(statement.constants for statement in statements),
        sum(statement.magnitude for statement in statements),
        len(text),
    )


def settings(recipe: Recipe) -> int:
    """The number of settings that are not at their default; each entry of a dict or list counts."""
    return sum(len(value) if isinstance(value, dict | list) else 1 for value in to_data(recipe).values())


def _stored(line: Input) -> int:
    if isinstance(line, TensorInput):
        return 2 if line.data.kind == "load" else int(is_long_literal(line))
    return 2 * isinstance(line, OpaqueInput)


def _values(line: Input) -> int:
    return rank(line) if isinstance(line, TensorInput) else 0


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
