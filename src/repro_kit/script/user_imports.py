"""The user's modules, and their imports, taken out of the statements that hold them."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from repro_kit.script.scopes import bound, local_names
from repro_kit.script.tree import bound_by

MAIN = "__main__"
REFERENCE = ":"  # between a module and its name, in a placeholder until all names are settled


#: What the loader, the C library and Python read when a process starts: set later, these do nothing in the process.
_OF_A_START = ("PYTHON", "LD_", "DYLD_", "GLIBC_", "MALLOC_")


def variables_before_torch(text: str, inherited: Collection[str] = ()) -> dict[str, str]:
    """The variables of the environment that a script sets to constants above its first import of torch.

    torch reads the variables of its settings when it is imported (`torch/utils/_config_module.py`), so these do nothing
    in a process that has imported torch before. Variables that count only when a process starts are not among them.
    `inherited`: the variables that the process has already, to which `setdefault` gives nothing.
    """
    found: dict[str, str] = {}
    if "environ" not in text:
        return found
    pairs: Iterable[tuple[ast.expr | None, ast.expr]]
    for statement in ast.parse(text).body:
        match statement:
            case ast.Import(names=names) if any(name.name.partition(".")[0] == "torch" for name in names):
                break
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] == "torch":
                break
            case ast.Assign(targets=[ast.Subscript(value=owner, slice=name)], value=value):
                pairs = [(name, value)]
            case ast.Expr(ast.Call(ast.Attribute(owner, "setdefault"), [ast.Constant(given) as name, value])):
                pairs = [] if given in inherited or given in found else [(name, value)]
            case ast.Expr(ast.Call(ast.Attribute(owner, "update"), [ast.Dict(keys, values)])):
                pairs = zip(keys, values, strict=True)
            case _:
                continue
        if ast.unparse(owner) in ("os.environ", "environ"):
            constants = [pair for pair in pairs if all(isinstance(each, ast.Constant) for each in pair)]
            found.update((ast.literal_eval(name), ast.literal_eval(value)) for name, value in constants if name)
    return {name: value for name, value in found.items() if _is_variable(name, value)}


def _is_variable(name: object, value: object) -> bool:
    """Whether the system takes them as the name and the value of a variable (`os.putenv`), which may do something."""
    if not (isinstance(name, str) and isinstance(value, str)) or name.startswith(_OF_A_START):
        return False
    return bool(name) and "=" not in name and "\0" not in name + value


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


class Imports(ast.NodeTransformer):
    """Takes imports of the user's modules out of statements, and notes what they bind."""

    def __init__(self, loaded: dict[str, Module], module: Module) -> None:
        self._loaded, self._module = loaded, module
        self._rebound = _bound_twice(module.tree)
        self._local = local_names(module.tree, imports=False)
        self._depth = 0

    def needed(self, statement: ast.stmt) -> list[str]:
        """The modules that the statement imports."""
        loaded = self._loaded
        names: dict[str, None] = {}
        for node in ast.walk(statement):
            for name in imported_modules(node, self._module):
                parts = name.split(".")
                names.update(dict.fromkeys(".".join(parts[: at + 1]) for at in range(len(parts))))
        return [name for name in names if name in loaded]

    def replaced(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statement without such imports."""
        result = self.visit(statement)
        statements: list[ast.stmt] = result if isinstance(result, list) else [result]
        return statements

    def _inner(self, node: ast.AST) -> ast.AST:
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _inner

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        """``import a.b``, ``import a.b as c``."""
        loaded = self._loaded
        made: list[ast.stmt] = []
        kept = [alias for alias in node.names if alias.name not in loaded]
        for alias in node.names:
            if alias.name in loaded:
                target = loaded[alias.name] if alias.asname else loaded[bound_by(alias)]
                made += self._bind(bound_by(alias), target, None)
        if kept:
            made.insert(0, ast.Import(kept))
        return made or [ast.Pass()]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> list[ast.stmt]:
        """``from a import b``, ``from . import b``, ``from a import *``."""
        if node.module == "__future__":
            return [ast.Pass()]
        loaded = self._loaded
        name = absolute(node, self._module)
        source = loaded.get(name)
        made: list[ast.stmt] = []
        kept: list[ast.alias] = []
        for alias in node.names:
            inner = loaded.get(f"{name}.{alias.name}")
            if inner is not None and not (source and alias.name in source.defined):
                made += self._bind(alias.asname or alias.name, inner, None)
            elif source is None:
                kept.append(alias)
            elif alias.name == "*":
                for public in _public(source):
                    made += self._bind(public, source, public)
            else:
                made += self._bind(alias.asname or alias.name, source, alias.name)
        if kept:
            if node.level:
                raise CannotFold(f"{self._module.name} imports {name}, whose source is not known")
            made.insert(0, ast.ImportFrom(node.module, kept, 0))
        return made or [ast.Pass()]

    def _bind(self, name: str, source: Module, inner: str | None) -> list[ast.stmt]:
        """Note what `name` refers to everywhere in the module; assign it instead if it may have other values."""
        module, meaning = self._module, (source, inner)
        if self._depth:
            other = name in self._local or (name in module.defined and name not in module.aliases)
        else:
            other = name in self._rebound
        if not other and module.aliases.get(name, meaning) == meaning:
            module.aliases[name] = meaning
            return []
        reference = ast.Name(f"{source.name}{REFERENCE}{inner or ''}", ast.Load())
        return [ast.Assign([ast.Name(name, ast.Store())], reference)]


def _public(module: Module) -> list[str]:
    for statement in module.tree.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            try:
                return list(ast.literal_eval(statement.value))
            except ValueError:
                break
    return sorted(name for name in module.defined if not name.startswith("_"))


def _bound_twice(tree: ast.Module) -> set[str]:
    """Names that more than one statement of the module binds, or that a function declares global."""
    counts: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            counts.update(dict.fromkeys(node.names, 2))
    for statement in _flat(tree.body):
        for name in bound([statement]):
            counts[name] = counts.get(name, 0) + 1
    return {name for name, count in counts.items() if count > 1}


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The simple statements and definitions of a module, also those within ``if`` and ``try``."""
    for statement in body:
        inner = [
            child
            for name in ("body", "orelse", "finalbody")
            for child in getattr(statement, name, [])
            if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        ]
        inner += [child for handler in getattr(statement, "handlers", []) for child in handler.body]
        yield from _flat(inner) if inner else [statement]
