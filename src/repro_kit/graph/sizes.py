"""The numbers of a program: sizes everywhere at once, in some inputs, or one number at a time."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeGuard

from repro_kit.graph.effects import op_name
from repro_kit.graph.inputs import ZERO_TENSOR, Data, DataKind, Input, ScalarInput, TensorInput
from repro_kit.graph.program import Function, Program, Statement, canonical
from repro_kit.graph.python_code import with_slices
from repro_kit.graph.simpler import with_statements

_FACTORS = (4.0, 0.5, 16.0, 0.25)
_VARIED = 2  # sizes that are varied alone, the largest first
_MOST = 1 << 24  # elements of all inputs of a variant
_GENERATED = (
    *("randn", "rand", "zeros", "ones", ZERO_TENSOR, "full", "randint", "randperm", "arange"),
    *("linspace", "softmax", "tril", "triu"),
)


def sizes_of(program: Program) -> list[int]:
    """The sizes above 1 of those inputs whose sizes can be changed, largest first."""
    sizes = {size for line in program.inputs if is_resizable(line) for size in line.data.sizes or ()}
    return sorted((size for size in sizes if size > 1), reverse=True)


def numbers_in(program: Program) -> set[int]:
    """Every integer in inputs and statements."""
    numbers = {size for line in program.inputs if isinstance(line, TensorInput) for size in line.data.sizes or ()}
    numbers |= {line.value for line in program.inputs if isinstance(line, ScalarInput) and type(line.value) is int}
    return numbers | {
        part.value
        for function in program.functions()
        for statement in function.statements
        for part in ast.walk(statement.node)
        if isinstance(part, ast.Constant) and type(part.value) is int
    }


def resized(program: Program, sizes: Mapping[int, int], *, code: bool) -> Program:
    """`program` with each number in `sizes` replaced in the sizes of generated inputs.

    Bounds of random integers are replaced too, since these may index a dimension that shrinks. With `code`, integers
    that are passed as arguments and integers in statements are replaced too, whatever they mean. The result may be
    invalid: the caller must try it.
    """
    changed = program.with_inputs(lambda line: _input(line, sizes, code=code))
    return changed.mapped(lambda function: function.mapped(partial(_statement, sizes))) if code else changed


def with_sizes(program: Program, sizes: Mapping[tuple[str, int], int]) -> Program:
    """`program` with other sizes of some inputs. `sizes`: (input, dimension) -> size."""
    lines = {line.name: line.data.sizes or () for line in program.inputs if is_resizable(line)}
    ends = {lines[name][axis]: size for (name, axis), size in sizes.items() if axis < len(lines.get(name, ()))}

    def change(line: Input) -> Input:
        if not is_resizable(line):
            return line
        own = enumerate(line.data.sizes or ())
        shaped = _shaped(line, tuple(sizes.get((line.name, axis), size) for axis, size in own))
        return _rising(shaped, ends) if line.data.kind == "linspace" else shaped

    return program.with_inputs(change)


def flat(program: Program) -> Program:
    """`program` with one element in each input of which the sizes can be changed; with the two ends of one element."""

    def change(line: Input) -> Input:
        if is_resizable(line) and line.data.kind == "linspace":
            low = line.data.args[0]
            return replace(line, data=Data("linspace", (2,), (low, low + 1)))
        return _shaped(line, (1,)) if _has_rank(line) else line

    return program.with_inputs(change)


def without_dimension(program: Program, places: Collection[tuple[str, int]]) -> Program:
    """`program` without these dimensions, (input, dimension) each."""

    def change(line: Input) -> Input:
        if not is_resizable(line):
            return line
        own = enumerate(line.data.sizes or ())
        return _shaped(line, tuple(size for axis, size in own if (line.name, axis) not in places))

    return program.with_inputs(change)


def with_other_sizes(program: Program) -> Iterator[tuple[str, Program]]:
    """Variants of the program with larger and with smaller sizes, each with what changed, in words.

    All sizes change together, then one size alone with its multiples. A variant may be invalid.
    """
    sizes = sizes_of(program)
    for factor in _FACTORS[:2] if sizes else ():
        yield from _variant(program, {size: _times(size, factor) for size in sizes}, f"every size times {factor:g}")
    for factor in _FACTORS[::2] + _FACTORS[1::2]:
        for size in sizes[:_VARIED]:
            numbers = {number: _times(number, factor) for number in numbers_in(program) if number and not number % size}
            yield from _variant(program, numbers, f"size {size} times {factor:g}")


def _variant(program: Program, sizes: Mapping[int, int], words: str) -> Iterator[tuple[str, Program]]:
    variant = resized(program, sizes, code=True)
    elements = sum(math.prod(line.shape or ()) for line in variant.inputs if isinstance(line, TensorInput))
    if elements <= _MOST and variant != program:
        yield words, variant


def _times(size: int, factor: float) -> int:
    return max(1, round(size * factor))


def _has_rank(line: Input) -> TypeGuard[TensorInput]:
    return is_resizable(line) and bool(line.data.sizes)


def _shaped(line: TensorInput, sizes: tuple[int, ...]) -> TensorInput:
    kind: DataKind = "ones" if line.data.kind in ("tril", "triu") and len(sizes) < 2 else line.data.kind
    return replace(line, data=replace(line.data, kind=kind, sizes=sizes))


def is_resizable(line: Input) -> TypeGuard[TensorInput]:
    """Whether the line is a generated tensor that states its own sizes."""
    return isinstance(line, TensorInput) and line.strided is None and line.data.kind in _GENERATED


def _input(line: Input, sizes: Mapping[int, int], *, code: bool) -> Input:
    if code and isinstance(line, ScalarInput) and type(line.value) is int:
        return replace(line, value=sizes.get(line.value, line.value))
    if not is_resizable(line):
        return line
    data = line.data
    args = data.args
    if data.kind == "randint":
        low, high = args
        args = (low, max(sizes.get(high, high), low + 1))
    if data.kind == "linspace":
        args = _rising(line, sizes).data.args
    return replace(line, data=Data(data.kind, tuple(sizes.get(size, size) for size in data.sizes or ()), args))


def _rising(line: TensorInput, sizes: Mapping[int, int]) -> TensorInput:
    """`line` with another end, where that is a size that changes: offsets end with the number of rows."""
    low, high = line.data.args
    end = max(sizes.get(high, high), low) if isinstance(high, int) else high
    return replace(line, data=replace(line.data, args=(low, end)))


def _statement(sizes: Mapping[int, int], statement: Statement) -> Statement:
    changer = _Numbers(sizes)
    node = changer.visit(ast.parse(statement.text).body[0])
    return Statement(statement.target, ast.unparse(node)) if changer.changed else statement


class _Numbers(ast.NodeTransformer):
    def __init__(self, sizes: Mapping[int, int]) -> None:
        self.sizes = sizes
        self.changed = False

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Replace the number."""
        if type(node.value) is int and node.value in self.sizes:
            self.changed = True
            return ast.copy_location(ast.Constant(self.sizes[node.value]), node)
        return node


Number = int | float


@dataclass(frozen=True)
class Spot:
    """One number of a program."""

    what: str  # in words: "argument 2 of `avg_pool2d`"
    value: Number
    put: Callable[[Number], Program]  # the program with another number here
    is_size: bool = False  # of an input
    is_index: bool = False  # in square brackets, where another number takes another part


def numbers(program: Program) -> Iterator[Spot]:
    """The numbers in statements, then those among the inputs. Negative ones, which often name a dimension, are not."""
    for function in program.functions():
        for statement in function.statements:
            indices = {id(part.slice) for part in ast.walk(statement.node) if isinstance(part, ast.Subscript)}
            for at, (what, number) in enumerate(_literals(function, statement)):
                put = partial(_with_literal, program, function, statement, at)
                yield Spot(what, number.value, put, is_index=id(number) in indices)  # type: ignore[arg-type]
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


def _literals(function: Function, statement: Statement) -> Iterator[tuple[str, ast.Constant]]:
    """The numbers of a statement of `function` in the order of `_numbers`, each after what it is in words.

    Values are "…" in these words: a script may write them without a name.
    """
    node = statement.node
    names: dict[int, str] = {}
    call = statement.expression
    if isinstance(call, ast.Call):
        of = f"of `{op_name(statement)}`"
        for at, argument in enumerate(call.args):
            names.update((id(part), f"argument {at + 1} {of}") for part in ast.walk(argument))
        for keyword in call.keywords:
            names.update((id(part), f"`{keyword.arg}` {of}") for part in ast.walk(keyword.value))
    values = {each.target for each in function.statements if each.target is not None}
    text = with_slices(statement.text)
    for name in values.intersection(statement.reads):
        text = re.sub(rf"(?<![\w.]){re.escape(name)}(?!\w)", "…", text)
    for part in _numbers(node):
        yield names.get(id(part), f"the number in `{text}`"), part


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
