"""The values of the symbolic sizes in an `fx_graph_runnable`, and the lines about sizes that are not Python."""

from __future__ import annotations

import ast
import re

_SYMBOL = re.compile(r"[su]\d+")
_EXPRESSION = re.compile(r"^(?!\w+ = )[\w*+/(), -]+ = \d+$\n?", re.MULTILINE)
_NO_ARGUMENTS = re.compile(r"^(def load_args\(reader\):\n)(?=\S)", re.MULTILINE)


def runnable(text: str) -> str:
    """`text` without what torch writes that is not Python: ``4*s77 = 32`` at the top, a ``load_args`` without lines."""
    return _NO_ARGUMENTS.sub(r"\1    pass\n", _EXPRESSION.sub("", text))


def symbol_values(tree: ast.Module, load_args: ast.FunctionDef) -> dict[str, int]:
    """The value of each symbol: of the lines ``s33 = 2`` at the top, which older versions of torch leave out.

    There the symbols have the values of the sizes among the arguments, in their order: Dynamo passes a size before the
    first tensor that has it.
    """
    return {**_unnamed(load_args), **_named(tree)}


def _named(tree: ast.Module) -> dict[str, int]:
    return {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, int)
    }


def _unnamed(load_args: ast.FunctionDef) -> dict[str, int]:
    symbols: list[str] = []
    values: list[int] = []
    for node in load_args.body:
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="symint"), args=[ast.Constant(value=int(value))])):
                values.append(value)
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="tensor"), args=[_, *shapes])):
                names = [part.id for shape in shapes for part in ast.walk(shape) if isinstance(part, ast.Name)]
                symbols += filter(_SYMBOL.fullmatch, names)
    distinct = list(dict.fromkeys(symbols))
    return dict(zip(distinct, values, strict=True)) if len(distinct) == len(values) else {}
