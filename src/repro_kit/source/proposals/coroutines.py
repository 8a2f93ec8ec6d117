"""An edit that does at once what coroutines do in turns."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from repro_kit.source.tree import Edits, NumberedTree, Replacement

_RUNS = ("run", "run_until_complete", "create_task", "ensure_future", "wait_for", "shield")


def coroutines(numbered: NumberedTree) -> Iterator[Edits]:
    """All coroutines of a script as functions, and plain calls of them."""
    if any(isinstance(node, ast.AsyncFunctionDef) for node in numbered.nodes):
        plain = ((number, _at_once(node)) for number, node in enumerate(numbered.nodes))
        yield {number: replacement for number, replacement in plain if replacement is not None}


def _at_once(node: ast.AST) -> Replacement:
    """What takes the place of the node; None for a node that stays."""
    match node:
        case ast.AsyncFunctionDef():
            return ast.FunctionDef(**{name: getattr(node, name) for name in node._fields})
        case ast.AsyncWith():
            return ast.With(node.items, node.body)
        case ast.AsyncFor():
            return ast.For(node.target, node.iter, node.body, node.orelse)
        case ast.Await(value=value):
            return value
        case ast.Call(func=ast.Attribute(attr="run_in_executor"), args=[_, function, *arguments]):
            return ast.Call(function, arguments, [])
        case ast.Call(func=ast.Attribute(attr="to_thread"), args=[function, *arguments]):
            return ast.Call(function, arguments, node.keywords)
        case ast.Call(func=ast.Attribute(attr="gather"), args=made):
            return ast.List(made, ast.Load())
        case ast.Call(func=ast.Attribute(attr=attr), args=[made, *_]) if attr in _RUNS:
            return made
    return None
