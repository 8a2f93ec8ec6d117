"""One of the user's modules, on its way into the one file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

MAIN = "__main__"
REFERENCE = ":"  # between a module and its name, in a placeholder until all names are settled


class CannotFold(Exception):
    """The script and its modules cannot become one file; the message says why."""


@dataclass(frozen=True)
class ModuleText:
    """One of the user's modules. `name`: as it is imported. `package`: from which its relative imports count."""

    name: str
    text: str
    package: str = ""


@dataclass
class Module:
    """A module that was parsed, and what is known about its names."""

    name: str
    package: str
    tree: ast.Module
    defined: set[str]
    imports: dict[str, str] = field(default_factory=dict)  # name -> what it is imported from, for other modules
    renamed: dict[str, str] = field(default_factory=dict)  # name in the module -> name in the one file
    aliases: dict[str, tuple[Module, str | None]] = field(default_factory=dict)  # name -> (module, name in it)
    as_value: bool = False  # the module itself is used, not only its names
    parts: list[tuple[list[str], list[ast.stmt]]] = field(default_factory=list)  # statements, after what they import


def absolute(node: ast.ImportFrom, module: Module) -> str:
    """The full name of the module from which `node` imports. Raises CannotFold."""
    if not node.level:
        return node.module or ""
    parts = module.package.split(".") if module.package else []
    if node.level > len(parts):
        raise CannotFold(f"{module.name} has a relative import beyond its package")
    base = parts[: len(parts) - node.level + 1]
    return ".".join([*base, *([node.module] if node.module else [])])


def imported_modules(node: ast.AST, module: Module) -> list[str]:
    """The modules that an import may execute."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        name = absolute(node, module)
        return [name, *(f"{name}.{alias.name}" for alias in node.names)]
    return []


def origins(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """The names that an import binds, and what each refers to: ``import torch.nn as nn``, ``from torch import nn``."""
    for alias in node.names:
        first = alias.name.partition(".")[0]
        if isinstance(node, ast.ImportFrom):
            yield alias.asname or alias.name, f"import {node.module}.{alias.name}"
        else:
            yield alias.asname or first, f"import {alias.name if alias.asname else first}"
