"""Edits that put an expression in several places: of a function at each call, of a name before it is assigned anew."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from repro_kit.source.proposals.calls import arguments_of, most_readings, with_values
from repro_kit.source.proposals.structure import bound_together, names_and_values
from repro_kit.source.tree import Edits, NumberedTree, Replacement


def expression_functions(numbered: NumberedTree) -> Iterator[Edits]:
    """For each function of one expression that is called in several places, and only called: the expression there."""
    for node in numbered.nodes:
        match node:
            case ast.FunctionDef(name=name, decorator_list=[], body=[ast.Return(value=ast.expr() as value)]):
                calls = _calls(numbered, numbered.mentions(name))
                if len(calls) > 1 and not isinstance(numbered.parent(node), ast.ClassDef):
                    edits = _at_each(numbered, node, value, calls)
                    if edits is not None:
                        yield edits


def reassigned(numbered: NumberedTree) -> Iterator[Edits]:
    """For each value of a name that only the next statement reads, since that returns or assigns the name anew.

    The value comes in place of the reading: ``x = f(x); return g(x)`` becomes ``return g(f(x))``.
    """
    for node in numbered.nodes:
        names, values = names_and_values(node)
        for at, (name, value) in enumerate(zip(names, values, strict=True)):
            after = _next(numbered, node)
            uses = [
                part
                for part in (ast.walk(after) if after is not None and _ends(after, name.id) else ())
                if isinstance(part, ast.Name) and part.id == name.id and isinstance(part.ctx, ast.Load)
            ]
            if 0 < len(uses) <= most_readings(value):
                others = [place for place in range(len(names)) if place != at]
                rest = bound_together(names, values, others) if others else None
                yield {numbered.number(node): rest, **{numbered.number(use): value for use in uses}}


def _calls(numbered: NumberedTree, mentions: Sequence[ast.Name]) -> list[ast.Call]:
    """The calls that the mentions are the functions of; none if a mention is another."""
    above = [(mention, numbered.parent(mention)) for mention in mentions]
    calls = [call for mention, call in above if isinstance(call, ast.Call) and call.func is mention]
    return calls if len(calls) == len(mentions) else []


def _at_each(
    numbered: NumberedTree, function: ast.FunctionDef, value: ast.expr, calls: Sequence[ast.Call]
) -> Edits | None:
    """The edits that put `value` in place of each call; None if the arguments do not allow it."""
    edits: dict[int, Replacement] = {numbered.number(function): None}
    for call in calls:
        arguments = arguments_of(function, call)
        placed = None if arguments is None else with_values(value, arguments)
        if placed is None:
            return None
        edits[numbered.number(call)] = placed
    return edits


def _next(numbered: NumberedTree, statement: ast.AST) -> ast.stmt | None:
    """The statement after `statement` in the same block."""
    parent = numbered.parent(statement)
    for _, block in ast.iter_fields(parent) if parent is not None else ():
        if isinstance(block, list) and any(part is statement for part in block):
            after = next(at for at, part in enumerate(block) if part is statement) + 1
            return block[after] if after < len(block) else None
    return None


def _ends(statement: ast.stmt, name: str) -> bool:
    """Whether no later statement sees the value that `name` had before this one."""
    match statement:
        case ast.Return():
            return True
        case ast.Assign(targets=[ast.Name(id=target)]):
            return target == name
    return False
