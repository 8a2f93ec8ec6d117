"""Plainer forms of one statement: fewer arguments, or the public name of its operator."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from repro_kit.program.program import Function, Program, reached
from repro_kit.program.statement import Statement, canonical

_MOST_ELEMENTS = 16  # elements of a list that are dropped one at a time
_OVERLOADED = "torch.ops.aten."
#: Private homes of functions, and their public homes (torch/nn/functional.py, torch/linalg, torch/fft, torch/special).
_HOMES = {
    "torch._C._nn.": ("torch.nn.functional.", "torch."),
    "torch._C._linalg.linalg_": ("torch.linalg.",),
    "torch._C._fft.fft_": ("torch.fft.",),
    "torch._C._special.special_": ("torch.special.",),
}


def fewer_arguments(statement: Statement) -> Iterator[Statement]:
    """`statement` with one argument dropped or made plainer. Some forms are invalid: the caller must try each."""
    call = statement.expression
    if not isinstance(call, ast.Call):
        return
    for args, keywords in _lesser(call.args, call.keywords):
        yield canonical(statement.target, ast.Call(call.func, args, keywords))


def _lesser(
    args: Sequence[ast.expr], keywords: Sequence[ast.keyword]
) -> Iterator[tuple[list[ast.expr], list[ast.keyword]]]:
    for at in range(len(keywords)):
        yield list(args), [*keywords[:at], *keywords[at + 1 :]]
    if len(args) > 1:
        yield list(args[:-1]), list(keywords)
    for at, arg in enumerate(args):
        for plainer in _plainer(arg):
            yield [*args[:at], plainer, *args[at + 1 :]], list(keywords)
    for at, keyword in enumerate(keywords):
        for plainer in _plainer(keyword.value):
            yield list(args), [*keywords[:at], ast.keyword(keyword.arg, plainer), *keywords[at + 1 :]]


def _plainer(value: ast.expr) -> Iterator[ast.expr]:
    """Plainer values: None, an empty container, its only or its first element, one element less; 1 for another number.

    All numbers of a list become 1 or 2 at once.
    """
    match value:
        case ast.Dict(keys=[_, *_]):
            yield ast.Constant(None)
            yield ast.Dict([], [])
            for at in range(min(len(value.keys), _MOST_ELEMENTS)):
                yield ast.Dict([*value.keys[:at], *value.keys[at + 1 :]], [*value.values[:at], *value.values[at + 1 :]])
        case ast.Tuple(elts=[_, *_]) | ast.List(elts=[_, *_]):
            make = type(value)
            yield ast.Constant(None)
            yield make([], ast.Load())
            yield value.elts[0] if len(value.elts) == 1 else make(value.elts[:1], ast.Load())
            if all(isinstance(each, ast.Constant) and type(each.value) in (int, float) for each in value.elts):
                for number in (1, 2):
                    yield make([ast.Constant(number) for _ in value.elts], ast.Load())
            for at in range(min(len(value.elts), _MOST_ELEMENTS) if len(value.elts) > 1 else 0):
                yield make([*value.elts[:at], *value.elts[at + 1 :]], ast.Load())
        case ast.Constant(value=int() | float() as number) if number not in (0, 1):
            yield ast.Constant(1)


def public_forms(statement: Statement) -> Iterator[Statement]:
    """`statement` with public names of its operator, likeliest first. Some of the names do not exist."""
    call = statement.expression
    if not isinstance(call, ast.Call):
        return
    callee = ast.unparse(call.func)
    if callee.startswith(_OVERLOADED) and callee.count(".") == 4:
        name = callee.split(".")[3]
        for home in ("torch.", "torch.nn.functional."):
            yield _called(statement, home + name, call.args, call.keywords)
        if call.args and isinstance(call.args[0], ast.Name):
            yield _called(statement, f"{call.args[0].id}.{name}", call.args[1:], call.keywords)
    if callee == "torch.ops.prims.convert_element_type.default" and len(call.args) == 2:
        yield _called(statement, f"{ast.unparse(call.args[0])}.to", call.args[1:], [])
    for private, homes in _HOMES.items():
        if callee.startswith(private):
            for home in homes:
                yield _called(statement, home + callee.removeprefix(private), call.args, call.keywords)


def _called(statement: Statement, callee: str, args: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> Statement:
    function = ast.parse(callee, mode="eval").body
    return canonical(statement.target, ast.Call(function, list(args), list(keywords)))


def with_statements(program: Program, name: str, new: dict[str, Statement]) -> Program:
    """`program` with some statements of the function `name` replaced. `new`: old line -> new statement."""

    def change(function: Function) -> Function:
        return function.mapped(lambda old: new.get(old.line, old)) if function.name == name else function

    changed = program.mapped(change)
    return changed.with_(bodies=reached(changed.bodies, changed.graph))
