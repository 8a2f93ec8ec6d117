"""An edit that puts the value of an attribute in the place of its only reading."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from repro_kit.source.scopes import own_names
from repro_kit.source.tree import Edits, NumberedTree


def attributes(numbered: NumberedTree) -> Iterator[Edits]:
    """For each attribute that ``__init__`` sets, of nothing of its own, and that is read once: the value in that place.

    Whatever the value does, it does at each reading then, which is for the search to judge.
    """
    named: dict[str, list[ast.Attribute]] = {}
    for node in numbered.nodes:
        if isinstance(node, ast.Attribute):
            named.setdefault(node.attr, []).append(node)
    for init in numbered.nodes:
        if not (isinstance(init, ast.FunctionDef) and init.name == "__init__"):
            continue
        own = own_names(init)
        for statement in init.body:
            match statement:
                case ast.Assign(targets=[ast.Attribute(attr=attr)], value=value) if not own & _names(value):
                    reads = [node for node in named[attr] if isinstance(node.ctx, ast.Load)]
                    if len(reads) == 1 and len(named[attr]) == 2:
                        yield {numbered.number(statement): None, numbered.number(reads[0]): value}


def _names(value: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
