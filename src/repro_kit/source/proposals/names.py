"""Plain names in place of the user's names."""

from __future__ import annotations

import ast
import builtins
import copy
import keyword
import string
from collections.abc import Iterator, Mapping

from repro_kit.source.tree import Edits, NumberedTree, Replacement, bound_by

_KEPT = ("self", "cls", "forward", "backward", "main")


def plain_names(numbered: NumberedTree) -> dict[str, str]:
    """A plain name for every name that the program itself defines, in the order of the text."""
    kinds: dict[str, str] = {}
    used, imported = set[str](), set[str]()
    for node in numbered.nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                kinds.setdefault(name, "f")
            case ast.ClassDef(name=name):
                kinds.setdefault(name, "A")
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.Attribute(attr=name, ctx=ast.Store()):
                kinds.setdefault(name, "a")
            case ast.alias():
                imported.add(bound_by(node))
        used |= {getattr(node, "id", "") or "", getattr(node, "attr", "") or ""}
    wanted = [name for name in kinds if _may_change(name) and name not in imported]
    used |= imported | set(dir(builtins)) | set(keyword.kwlist)
    chosen: dict[str, str] = {}
    for name in wanted:
        chosen[name] = next(new for new in _new_names(kinds[name]) if new not in used)
        used.add(chosen[name])
    return {name: new for name, new in chosen.items() if len(new) < len(name)}


def _may_change(name: str) -> bool:
    return len(name) > 1 and name not in _KEPT and not name.startswith("__")


def _new_names(kind: str) -> Iterator[str]:
    letters = string.ascii_uppercase if kind == "A" else string.ascii_lowercase
    at = letters.index(kind)
    ordered = letters[at:] + letters[:at]
    yield from ordered
    for number in range(1, 1000):
        yield from (f"{letter}{number}" for letter in ordered)


def renamed(numbered: NumberedTree, names: Mapping[str, str]) -> Edits:
    """The edits that give things their new names, wherever these are used."""
    edits: dict[int, Replacement] = {}
    for number, node in enumerate(numbered.nodes):
        for field in ("id", "name", "arg", "attr"):
            old = getattr(node, field, None)
            if isinstance(old, str) and old in names and not isinstance(node, ast.alias):
                new = copy.copy(node)
                setattr(new, field, names[old])
                edits[number] = new
        if isinstance(node, ast.Global | ast.Nonlocal) and any(name in names for name in node.names):
            edits[number] = type(node)([names.get(name, name) for name in node.names])
    return edits
