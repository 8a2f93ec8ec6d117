"""Statements that the one file does not need: repeated imports, docstrings, ``pass``."""

from __future__ import annotations

import ast


def without_repeated_imports(body: list[ast.stmt]) -> list[ast.stmt]:
    """`body` with each import once."""
    seen: set[str] = set()
    kept: list[ast.stmt] = []
    for statement in body:
        text = ast.unparse(statement) if isinstance(statement, ast.Import | ast.ImportFrom) else ""
        if not text or text not in seen:
            kept.append(statement)
        seen.add(text)
    return kept


def without_docstrings(body: list[ast.stmt]) -> list[ast.stmt]:
    """`body` without statements that are only a text, and without ``pass`` where it is not needed."""
    kept: list[ast.stmt] = []
    for statement in body:
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(statement, name, None)
            if isinstance(inner, list) and inner and isinstance(inner[0], ast.stmt):
                clean = without_docstrings(inner)
                setattr(statement, name, clean or ([ast.Pass()] if name == "body" else []))
        for handler in getattr(statement, "handlers", []):
            handler.body = without_docstrings(handler.body) or [ast.Pass()]
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not is_text and not isinstance(statement, ast.Pass):
            kept.append(statement)
    return kept
