"""The numbers of a program, one at a time: in statements, among the arguments, and as sizes of inputs."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from repro_kit.program.effects import op_name
from repro_kit.program.inputs import ScalarInput
from repro_kit.program.plainer_forms import with_statements
from repro_kit.program.program import Function, Program
from repro_kit.program.resize import is_resizable, with_sizes
from repro_kit.program.statement import Statement, canonical

Number = int | float


@dataclass(frozen=True)
class Spot:
    """One number of a program."""

    what: str  # in words: "argument 2 of `avg_pool2d`"
    value: Number
    put: Callable[[Number], Program]  # the program with another number here
    is_size: bool = False  # of an input


def numbers(program: Program) -> Iterator[Spot]:
    """The numbers in statements, then those among the inputs. Negative ones, which often name a dimension, are not."""
    for function in program.functions():
        for statement in function.statements:
            for at, (what, value) in enumerate(_literals(statement)):
                yield Spot(what, value, partial(_with_literal, program, function, statement, at))
    for line in program.inputs:
        if isinstance(line, ScalarInput) and type(line.value) in (int, float) and line.value >= 0:  # type: ignore[operator]
            yield Spot(f"`{line.name}`", line.value, partial(_with_scalar, program, line))  # type: ignore[arg-type]


def sizes(program: Program) -> Iterator[Spot]:
    """The sizes of those inputs whose sizes can be changed."""
    for line in program.inputs:
        if is_resizable(line):
            for axis, size in enumerate(line.data.sizes or ()):
                what = f"dimension {axis} of `{line.name}`"
                yield Spot(what, size, partial(_with_size, program, line.name, axis), is_size=True)


def _literals(statement: Statement) -> Iterator[tuple[str, Number]]:
    """The numbers of the statement in the order of `_numbers`, each with what it is in words."""
    node = statement.node
    names: dict[int, str] = {}
    call = statement.expression
    if isinstance(call, ast.Call):
        of = f"of `{op_name(statement)}`"
        for at, argument in enumerate(call.args):
            names.update((id(part), f"argument {at + 1} {of}") for part in ast.walk(argument))
        for keyword in call.keywords:
            names.update((id(part), f"`{keyword.arg}` {of}") for part in ast.walk(keyword.value))
    for part in _numbers(node):
        yield names.get(id(part), f"the number in `{statement.text}`"), part.value  # type: ignore[misc]


def _numbers(node: ast.AST) -> list[ast.Constant]:
    negated = {id(part.operand) for part in ast.walk(node) if isinstance(part, ast.UnaryOp)}
    constants = [part for part in ast.walk(node) if isinstance(part, ast.Constant) and id(part) not in negated]
    return [part for part in constants if type(part.value) in (int, float)]


def _with_literal(program: Program, function: Function, statement: Statement, at: int, value: Number) -> Program:
    node = ast.parse(statement.text).body[0]
    _numbers(node)[at].value = value
    expression = node.value if isinstance(node, ast.Expr) else node
    return with_statements(program, function.name, {statement.line: canonical(statement.target, expression)})


def _with_scalar(program: Program, scalar: ScalarInput, value: Number) -> Program:
    return program.with_inputs(lambda line: replace(scalar, value=value) if line is scalar else line)


def _with_size(program: Program, name: str, axis: int, value: Number) -> Program:
    return with_sizes(program, {(name, axis): int(value)})
