"""Edits that put what calls returned in their places, with all that only these calls needed gone."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping

from repro_kit.source.tree import Edits, NumberedTree, Replacement


def results(numbered: NumberedTree, values: Mapping[str, ast.expr], lines: Collection[int]) -> dict[int, ast.expr]:
    """For each call that returned what can be written: that. `values`: by the text of the call.

    A call around others on one of `lines`, where the failure showed, is taken for the one that fails.
    """
    edits: dict[int, ast.expr] = {}
    for number, node in enumerate(numbered.nodes):
        if isinstance(node, ast.Call) and not (node.lineno in lines and _is_outermost(numbered, node)):
            value = values.get(ast.unparse(node))
            if value is not None and not isinstance(value, ast.Constant):
                edits[number] = value
    return edits


def _is_outermost(numbered: NumberedTree, call: ast.Call) -> bool:
    above = numbered.parent(call)
    while isinstance(above, ast.expr | ast.keyword):
        if isinstance(above, ast.Call):
            return False
        above = numbered.parent(above)
    return True


def with_released(numbered: NumberedTree, edits: Edits) -> Edits:
    """The edits, and those that drop the statements whose names only the replaced calls mention, even indirectly."""
    all_edits: dict[int, Replacement] = dict(edits)
    before = set(_read(numbered, numbered.tree, {}))
    count = -1
    while count != len(all_edits):
        count = len(all_edits)
        idle = before - set(_read(numbered, numbered.tree, all_edits))
        for number, node in enumerate(numbered.nodes):
            names = _given(node)
            if number not in all_edits and names and idle.issuperset(names):
                all_edits[number] = None
    return all_edits


def _given(node: ast.AST) -> list[str]:
    """The names that a definition or an assignment gives; none if it has other targets."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=[ast.Tuple(elts=targets)]) | ast.Assign(targets=targets):
            names = [_name(target) for target in targets]
            return [name for name in names if name] if all(names) else []
    return []


def _name(target: ast.expr) -> str:
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _read(numbered: NumberedTree, node: ast.AST, edits: Edits) -> Iterator[str]:
    """The names that are read in `node`, once `edits` are made."""
    number = numbered.number_if_any(node)
    if number is not None and number in edits:
        replacement, others = edits[number], {key: edit for key, edit in edits.items() if key != number}
        for part in [replacement] if isinstance(replacement, ast.AST) else replacement or ():
            yield from _read(numbered, part, others)
        return
    match node:
        case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
            yield name
        case ast.Constant(value=str(text)):
            yield text
    for child in ast.iter_child_nodes(node):
        yield from _read(numbered, child, edits)
