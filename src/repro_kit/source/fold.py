"""Make one file of a script and the user's modules that it imports."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from repro_kit.source.scopes import GlobalNames, bound, local_names
from repro_kit.source.tree import SourceProgram

_MAIN = "__main__"
_REFERENCE = ":"  # between a module and its name, in a name that stands for it until all names are settled


class CannotFold(Exception):
    """The script and its modules cannot become one file; the message says why."""


@dataclass(frozen=True)
class ModuleText:
    """A module of the user's. `name`: as it is imported. `package`: from which its relative imports count."""

    name: str
    text: str
    package: str = ""


Find = Callable[[str], ModuleText | None]


@dataclass
class _Module:
    name: str
    package: str
    tree: ast.Module
    defined: set[str]
    imports: dict[str, str] = field(default_factory=dict)  # name -> what it is imported from, for other modules
    renamed: dict[str, str] = field(default_factory=dict)  # name in the module -> name in the one file
    aliases: dict[str, tuple[_Module, str | None]] = field(default_factory=dict)  # name -> (module, name in it)
    as_value: bool = False  # the module itself is used, not only its names
    parts: list[tuple[list[str], list[ast.stmt]]] = field(default_factory=list)  # statements, after what they import


def fold(main: ModuleText, find: Find, arguments: Sequence[str] = ()) -> SourceProgram:
    """The script `main` with every module that `find` gives, in the order of their execution.

    `arguments`: the words after the script. Raises CannotFold.
    """
    modules = _Modules(find)
    modules.load(main)
    futures = [name for module in modules.loaded.values() for name in _futures(module.tree)]
    modules.take_imports()
    modules.settle_names()
    body: list[ast.stmt] = []
    if arguments:
        body += ast.parse(f"import sys\nsys.argv[1:] = {list(arguments)!r}").body
    body += modules.statements()
    return SourceProgram.of(ast.Module([*_future(futures), *_without_docstrings(body)], []))


class _Modules:
    """The modules by name, each after those that it imports."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self.loaded: dict[str, _Module] = {}
        self._emitted: set[str] = set()

    def load(self, text: ModuleText) -> None:
        """Parse a module and all modules that it imports."""
        try:
            tree = ast.parse(text.text)
        except (SyntaxError, ValueError) as error:
            raise CannotFold(f"{text.name} cannot be parsed by the Python of repro-kit ({error})") from error
        tree.body = [statement for statement in tree.body if not _never_runs(statement, text.name)]
        declared = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
        module = _Module(text.name, text.package, tree, bound(tree.body) | declared)
        self.loaded[text.name] = module
        for node in ast.walk(tree):
            for name in _imported_modules(node, module):
                self._load_named(name)
            if isinstance(node, ast.Import | ast.ImportFrom):
                module.imports.update(_origins(node))

    def _load_named(self, name: str) -> None:
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            part = ".".join(parts[:length])
            if part not in self.loaded:
                text = self._find(part)
                if text is not None:
                    self.load(text)

    def take_imports(self) -> None:
        """Take the imports of the user's modules out of every module, and note what they bind."""
        for module in self.loaded.values():
            imports = _Imports(self.loaded, module)
            for statement in module.tree.body:
                module.parts.append((imports.needed(statement), imports.replaced(statement)))

    def settle_names(self) -> None:
        """Choose a name in the one file for every name that a module defines."""
        taken: dict[str, str] = {}
        hidden = {name: local_names(module.tree) for name, module in self.loaded.items()}
        for module in sorted(self.loaded.values(), key=lambda module: module.name != _MAIN):
            others = set().union(*(names for name, names in hidden.items() if name != module.name))
            for name in sorted(module.defined - set(module.aliases)):
                meaning = module.imports.get(name) or f"{module.name}:{name}"
                is_import = name in module.imports
                clashes = not is_import and module.name != _MAIN and (name in others or hasattr(builtins, name))
                new = f"{name}_{_flat_name(module)}" if clashes or taken.get(name, meaning) != meaning else name
                taken[new] = meaning
                module.renamed[name] = new

    def statements(self) -> list[ast.stmt]:
        """The statements of all modules, in the order of their execution."""
        for module in self.loaded.values():
            references = _References(self, module)
            module.parts = [
                (needed, [references.visit(statement) for statement in statements])
                for needed, statements in module.parts
            ]
        body: list[ast.stmt] = []
        self._emit(self.loaded[_MAIN], body)
        return _without_repeated_imports(body)

    def _emit(self, module: _Module, body: list[ast.stmt]) -> None:
        self._emitted.add(module.name)
        for needed, statements in module.parts:
            for name in needed:
                if name not in self._emitted:
                    self._emit(self.loaded[name], body)
            body += statements
        if module.as_value:
            pairs = ", ".join(f"{name}={new}" for name, new in sorted(module.renamed.items()))
            body += ast.parse(f"{_value_name(module)} = __import__('types').SimpleNamespace({pairs})").body

    def value_of(self, module: _Module) -> ast.expr:
        """An expression for the module itself."""
        module.as_value = True
        return ast.Name(_value_name(module), ast.Load())


def _flat_name(module: _Module) -> str:
    return module.name.replace(".", "_").strip("_")


def _value_name(module: _Module) -> str:
    return f"module_{_flat_name(module)}"


class _Imports(ast.NodeTransformer):
    """Takes imports of the user's modules out of statements, and notes what they bind."""

    def __init__(self, loaded: dict[str, _Module], module: _Module) -> None:
        self._loaded, self._module = loaded, module
        self._rebound = _bound_twice(module.tree)
        self._local = local_names(module.tree, imports=False)
        self._depth = 0

    def needed(self, statement: ast.stmt) -> list[str]:
        """The modules that the statement imports."""
        loaded = self._loaded
        names: dict[str, None] = {}
        for node in ast.walk(statement):
            for name in _imported_modules(node, self._module):
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
                target = loaded[alias.name] if alias.asname else loaded[alias.name.partition(".")[0]]
                made += self._bind(alias.asname or alias.name.partition(".")[0], target, None)
        if kept:
            made.insert(0, ast.Import(kept))
        return made or [ast.Pass()]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> list[ast.stmt]:
        """``from a import b``, ``from . import b``, ``from a import *``."""
        if node.module == "__future__":
            return [ast.Pass()]
        loaded = self._loaded
        name = _absolute(node, self._module)
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

    def _bind(self, name: str, source: _Module, inner: str | None) -> list[ast.stmt]:
        """Note what `name` stands for everywhere in the module, or assign it, where it may have other values."""
        module, meaning = self._module, (source, inner)
        if self._depth:
            other = name in self._local or (name in module.defined and name not in module.aliases)
        else:
            other = name in self._rebound
        if not other and module.aliases.get(name, meaning) == meaning:
            module.aliases[name] = meaning
            return []
        reference = ast.Name(f"{source.name}{_REFERENCE}{inner or ''}", ast.Load())
        return [ast.Assign([ast.Name(name, ast.Store())], reference)]


class _References(GlobalNames):
    """Gives every reference to a name of a module its name in the one file."""

    def __init__(self, modules: _Modules, module: _Module) -> None:
        super().__init__(self._renamed)
        self._modules, self._module = modules, module

    def _renamed(self, node: ast.expr) -> ast.expr:
        chain: list[str] = []
        root: ast.expr = node
        while isinstance(root, ast.Attribute):
            chain.append(root.attr)
            root = root.value
        assert isinstance(root, ast.Name)
        chain.reverse()
        context = getattr(node, "ctx", ast.Load())
        if root.id == "__name__" and self._module.name != _MAIN and not chain:
            return ast.Constant(self._module.name)
        if _REFERENCE in root.id:
            name, _, inner = root.id.partition(_REFERENCE)
            return self._through(self._modules.loaded[name], inner or None, chain, context, node)
        if root.id not in self._module.aliases:
            return ast.Name(self._module.renamed.get(root.id, root.id), context) if not chain else node
        return self._through(*self._module.aliases[root.id], chain, context, node)

    def _through(
        self, source: _Module, inner: str | None, chain: list[str], context: ast.expr_context, node: ast.expr
    ) -> ast.expr:
        """The name that a chain of attributes reaches, through modules and what they import."""
        while inner is None and chain:
            below = self._modules.loaded.get(f"{source.name}.{chain[0]}")
            if below is not None and chain[0] not in source.defined - set(source.aliases):
                source, chain = below, chain[1:]
            elif chain[0] in source.aliases:
                (source, inner), chain = source.aliases[chain[0]], chain[1:]
            elif chain[0] in source.defined:
                inner, chain = chain[0], chain[1:]
            else:
                break
        while inner is not None and inner in source.aliases:
            source, inner = source.aliases[inner]
            if inner is None and chain:
                return self._through(source, None, chain, context, node)
        if inner is None:
            if not isinstance(context, ast.Load) and not chain:
                raise CannotFold(f"the module {source.name} is assigned to")
            base = self._modules.value_of(source)
        else:
            if not isinstance(context, ast.Load) and not chain and self.in_function:
                raise CannotFold(f"a function changes {inner} of the module {source.name}")
            base = ast.Name(source.renamed.get(inner, inner), ast.Load() if chain else context)
        for at, attribute in enumerate(chain):
            base = ast.Attribute(base, attribute, context if at == len(chain) - 1 else ast.Load())
        return base


def _absolute(node: ast.ImportFrom, module: _Module) -> str:
    if not node.level:
        return node.module or ""
    parts = module.package.split(".") if module.package else []
    if node.level > len(parts):
        raise CannotFold(f"{module.name} has a relative import beyond its package")
    base = parts[: len(parts) - node.level + 1]
    return ".".join([*base, *([node.module] if node.module else [])])


def _imported_modules(node: ast.AST, module: _Module) -> list[str]:
    """The modules that an import may execute."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        name = _absolute(node, module)
        return [name, *(f"{name}.{alias.name}" for alias in node.names)]
    return []


def _origins(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """The names that an import binds, and what they stand for: ``import torch.nn as nn``, ``from torch import nn``."""
    for alias in node.names:
        first = alias.name.partition(".")[0]
        if isinstance(node, ast.ImportFrom):
            yield alias.asname or alias.name, f"import {node.module}.{alias.name}"
        else:
            yield alias.asname or first, f"import {alias.name if alias.asname else first}"


def _public(module: _Module) -> list[str]:
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


def _never_runs(statement: ast.stmt, module: str) -> bool:
    """Whether the statement does nothing in an imported module: for type checkers only, or for the main program."""
    if not isinstance(statement, ast.If) or statement.orelse:
        return False
    test = ast.unparse(statement.test)
    is_main = test in ("__name__ == '__main__'", "'__main__' == __name__")
    return test in ("TYPE_CHECKING", "typing.TYPE_CHECKING") or (is_main and module != _MAIN)


def _without_repeated_imports(body: list[ast.stmt]) -> list[ast.stmt]:
    seen: set[str] = set()
    kept: list[ast.stmt] = []
    for statement in body:
        text = ast.unparse(statement) if isinstance(statement, ast.Import | ast.ImportFrom) else ""
        if not text or text not in seen:
            kept.append(statement)
        seen.add(text)
    return kept


def _futures(tree: ast.Module) -> list[str]:
    """The language features that a module asks for."""
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    return [alias.name for node in imports for alias in node.names]


def _future(names: Iterable[str]) -> list[ast.stmt]:
    wanted = [ast.alias(name) for name in sorted(set(names))]
    return [ast.ImportFrom("__future__", wanted, 0)] if wanted else []


def _without_docstrings(body: list[ast.stmt]) -> list[ast.stmt]:
    """`body` without statements that are only a text, and without ``pass`` where it is not needed."""
    kept: list[ast.stmt] = []
    for statement in body:
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(statement, name, None)
            if isinstance(inner, list) and inner and isinstance(inner[0], ast.stmt):
                clean = _without_docstrings(inner)
                setattr(statement, name, clean or ([ast.Pass()] if name == "body" else []))
        for handler in getattr(statement, "handlers", []):
            handler.body = _without_docstrings(handler.body) or [ast.Pass()]
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not is_text and not isinstance(statement, ast.Pass):
            kept.append(statement)
    return kept
