"""Edits that write out at once what a script puts together: lists, dicts and sums."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from repro_kit.source.tree import Edits, NumberedTree, blocks, names_in


def accumulated(numbered: NumberedTree) -> Iterator[Edits]:
    """For each name that one statement assigns, and the next one that mentions it adds to: one statement for both.

    ``a = []`` and ``a.append(x)`` become ``a = [x]``; ``a = {}`` and ``a[k] = x`` become ``a = {k: x}``; of ``a = 0``
    and ``a += x``, and of any other constant and operator, ``a = x`` is left. The statement is where the second was.
    """
    for node in numbered.nodes:
        for block in blocks(node):
            names = [names_in(statement) for statement in block]
            for at, statement in enumerate(block):
                match statement:
                    case ast.Assign(targets=[ast.Name(id=name)], value=value):
                        later = next((place for place in range(at + 1, len(block)) if name in names[place]), None)
                        after = None if later is None else block[later]
                        together = None if after is None else _together(name, value, after)
                        if together is not None and after is not None:
                            assigned = ast.Assign(statement.targets, together)
                            yield {numbered.number(statement): None, numbered.number(after): assigned}


def _together(name: str, value: ast.expr, after: ast.stmt) -> ast.expr | None:
    """The value of the name after both statements; None if it is not known, or needs the name itself."""
    match value, after:
        case (
            ast.List(elts=items),
            ast.Expr(ast.Call(ast.Attribute(ast.Name(id=other), "append"), [item], [])),
        ) if other == name and name not in names_in(item) and not isinstance(item, ast.Starred):
            return ast.List([*items, item], ast.Load())
        case ast.Dict(keys=keys, values=values), ast.Assign([ast.Subscript(ast.Name(id=other), key)], item) if (
            other == name and name not in names_in(item, key)
        ):
            return ast.Dict([*keys, key], [*values, item])
        case ast.Constant(), ast.AugAssign(ast.Name(id=other), value=item) if other == name:
            return None if name in names_in(item) else item
    return None
