"""Edits that do the work of pools and threads where it is handed out."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from repro_kit.source.proposals.calls import readings, scope_of
from repro_kit.source.tree import Edits, NumberedTree, Replacement

_WAITS = ("result", "start", "join")


def pools(numbered: NumberedTree) -> Iterator[Edits]:
    """All work that is handed to a pool or a thread as plain calls, and none of the pools that have no other use."""
    edits: dict[int, Replacement] = {}
    owners: set[int] = set()
    for number, node in enumerate(numbered.nodes):
        plain = _plain(node)
        if plain is not None:
            edits[number] = plain
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owners.add(numbered.number(node.func.value))
    if edits:
        yield edits | _without_pools(numbered, owners) | _without_waits(numbered)


def _plain(node: ast.AST) -> ast.expr | None:
    """The plain call that does what `node` hands out; None for anything else."""
    match node:
        case ast.Call(func=ast.Attribute(attr="submit"), args=[function, *rest]):
            return ast.Call(function, rest, node.keywords)
        case ast.Call(func=ast.Attribute(attr="map"), args=[_, _, *_]):
            call = ast.Call(ast.Name("map", ast.Load()), node.args, [])
            return ast.Call(ast.Name("list", ast.Load()), [call], [])
        case ast.Call(func=ast.Attribute(attr="Thread") | ast.Name(id="Thread"), args=[]):
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            arguments = given.get("args", ast.Tuple([], ast.Load()))
            if "target" in given and isinstance(arguments, ast.Tuple | ast.List):
                return ast.Call(given["target"], arguments.elts, [])
    return None


def _without_pools(numbered: NumberedTree, owners: set[int]) -> dict[int, Replacement]:
    """The edits that drop each pool with a name that only `owners` read."""
    edits: dict[int, Replacement] = {}
    for number, node in enumerate(numbered.nodes):
        match node:
            case ast.With(items=[ast.withitem(optional_vars=ast.Name() as target)], body=body):
                left: Replacement = body
            case ast.Assign(targets=[ast.Name() as target]):
                left = None
            case _:
                continue
        uses = readings(scope_of(numbered, node), target)
        if uses and all(numbered.number(use) in owners for use in uses):
            edits[number] = left
    return edits


def _without_waits(numbered: NumberedTree) -> dict[int, Replacement]:
    """The edits that put what is waited for in place of the waiting."""
    waits: dict[int, Replacement] = {}
    for number, node in enumerate(numbered.nodes):
        match node:
            case ast.Call(func=ast.Attribute(attr=attr, value=value), args=[]) if attr in _WAITS:
                waits[number] = value
    return waits
