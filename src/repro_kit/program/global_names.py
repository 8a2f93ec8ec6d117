"""The global names that a piece of code reads."""

from __future__ import annotations

import symtable


def reads_of(code: str) -> set[str]:
    """Global names that `code` (statements of a module) reads, in functions too. Parameters and locals do not count.

    Raises SyntaxError when `code` is not Python.
    """
    return set(_referenced(symtable.symtable(code, "<code>", "exec"), top=True))


def _referenced(table: symtable.SymbolTable, *, top: bool) -> list[str]:
    symbols = table.get_symbols()
    own = [
        symbol.get_name()
        for symbol in symbols
        if symbol.is_declared_global() or (symbol.is_referenced() and (top or symbol.is_global()))
    ]
    return own + [name for child in table.get_children() for name in _referenced(child, top=False)]
