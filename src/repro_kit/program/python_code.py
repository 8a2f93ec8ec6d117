"""Pieces of Python code: the text of a statement, many of them as one text, and the names that code binds and reads."""

from __future__ import annotations

import ast
import keyword
import symtable
import textwrap
from collections.abc import Iterable
from itertools import pairwise

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)


def text_of(source: str, node: ast.stmt) -> str:
    """The lines of the statement with comments and decorators, dedented; only its own part of a shared line."""
    first = min([node.lineno, *(part.lineno for part in getattr(node, "decorator_list", []))])
    lines = source.splitlines()[first - 1 : node.end_lineno]
    before = lines[0].encode()[: node.col_offset] if first == node.lineno else b""
    after = lines[-1].encode()[node.end_col_offset or 0 :].lstrip()
    if before.strip() or after.startswith(b";"):
        return ast.get_source_segment(source, node) or ast.unparse(node)
    return textwrap.dedent("\n".join(lines))


def joined(pieces: Iterable[str]) -> str:
    """Statements of a module as one text, with blank lines where people put them; each import once.

    Pieces without a statement are left out.
    """
    parsed = {at: (piece, body[-1]) for at, piece in enumerate(pieces) if (body := ast.parse(piece).body)}
    imports = {piece: at for at, (piece, node) in reversed(parsed.items()) if isinstance(node, _IMPORTS)}
    kept = [(piece, node) for at, (piece, node) in parsed.items() if imports.get(piece, at) == at]
    gaps = [_gap(before, after) for (_, before), (_, after) in pairwise(kept)]
    return "".join(piece + gap for (piece, _), gap in zip(kept, [*gaps, ""], strict=False))


def _gap(before: ast.stmt, after: ast.stmt) -> str:
    if isinstance(before, _DEFINITIONS) or isinstance(after, _DEFINITIONS):
        return "\n\n\n"
    return "\n" if isinstance(before, _IMPORTS) == isinstance(after, _IMPORTS) else "\n\n"


def bound_names(*statements: ast.stmt) -> set[str]:
    """The names that statements of a module bind; ``*`` for unknown ones."""
    names: set[str] = set()
    for node in statements:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names |= {alias.asname or alias.name.partition(".")[0] for alias in aliases}
            case _:
                stored = (part for part in ast.walk(node) if isinstance(part, ast.Name))
                names |= {part.id for part in stored if isinstance(part.ctx, ast.Store)}
    return names


def fresh_name(wanted: str, taken: set[str]) -> str:
    """`wanted`, or with a number if that is taken or a keyword; the name is taken then."""
    name, count = wanted, 0
    while name in taken or keyword.iskeyword(name):
        count += 1
        name = f"{wanted}_{count}"
    taken.add(name)
    return name


def reads_of(code: str) -> set[str]:
    """Global names that `code` (statements of a module) reads, in functions too. Parameters and locals do not count.

    Raises SyntaxError when `code` is not Python.
    """
    own_scopes = ast.unparse(_AsGenerators().visit(ast.parse(code)))
    return set(_referenced(symtable.symtable(own_scopes, "<code>", "exec"), top=True))


class _AsGenerators(ast.NodeTransformer):
    """Makes comprehensions generators, with the same names: since Python 3.12 only generators have their own scope."""

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        """[x for ...] as (x for ...)."""
        return self.generic_visit(ast.GeneratorExp(node.elt, node.generators))

    def visit_SetComp(self, node: ast.SetComp) -> ast.AST:
        """{x for ...} as (x for ...)."""
        return self.generic_visit(ast.GeneratorExp(node.elt, node.generators))

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        """{x: y for ...} as ((x, y) for ...)."""
        both = ast.Tuple([node.key, node.value], ast.Load())
        return self.generic_visit(ast.GeneratorExp(both, node.generators))


def _referenced(table: symtable.SymbolTable, *, top: bool) -> list[str]:
    symbols = table.get_symbols()
    own = [
        symbol.get_name()
        for symbol in symbols
        if symbol.is_declared_global() or (symbol.is_referenced() and (top or symbol.is_global()))
    ]
    return own + [name for child in table.get_children() for name in _referenced(child, top=False)]
