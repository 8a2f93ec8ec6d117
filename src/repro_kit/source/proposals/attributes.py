"""An edit that puts the value of an attribute in the place of its only reading."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from repro_kit.source.scopes import own_names
from repro_kit.source.tree import Edits, NumberedTree, names_in

#: Methods of a module that set an attribute by its name.
_SETTERS = ("register_buffer", "register_parameter", "add_module", "register_module")


def attributes(numbered: NumberedTree) -> Iterator[Edits]:
    """For each attribute that ``__init__`` sets from no local name, and that is read once: the value in that place.

    The value is then computed at each reading; the search judges whether that is allowed.
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
            attr, value, stores = _set(statement)
            mentions = named.get(attr, [])
            reads = [node for node in mentions if isinstance(node.ctx, ast.Load)]
            if value is not None and not own & names_in(value) and len(reads) == 1 and len(mentions) == 1 + stores:
                yield {numbered.number(statement): None, numbered.number(reads[0]): value}


def _set(statement: ast.stmt) -> tuple[str, ast.expr | None, int]:
    """The attribute that the statement sets, the value, and how often the statement has the attribute as one."""
    match statement:
        case ast.Assign(targets=[ast.Attribute(attr=attr)], value=value):
            return attr, value, 1
        case ast.Expr(ast.Call(ast.Attribute(attr=function), [ast.Constant(str(attr)), value, *_])):
            return (attr, value, 0) if function in _SETTERS else ("", None, 0)
    return "", None, 0
