"""The source text of a statement."""

from __future__ import annotations

import ast
import textwrap


def text_of(source: str, node: ast.stmt) -> str:
    """The lines of the statement with comments and decorators, dedented; only its own part of a shared line."""
    first = min([node.lineno, *(part.lineno for part in getattr(node, "decorator_list", []))])
    lines = source.splitlines()[first - 1 : node.end_lineno]
    before = lines[0].encode()[: node.col_offset] if first == node.lineno else b""
    after = lines[-1].encode()[node.end_col_offset or 0 :].lstrip()
    if before.strip() or after.startswith(b";"):
        return ast.get_source_segment(source, node) or ast.unparse(node)
    return textwrap.dedent("\n".join(lines))
