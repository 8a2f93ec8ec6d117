"""Make one file of a script and the user's modules that it imports."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Sequence

from repro_kit.script.scopes import GlobalNames, bound, local_names
from repro_kit.script.tree import Script
from repro_kit.script.user_imports import (
    MAIN,
    REFERENCE,
    CannotFold,
    Imports,
    Module,
    ModuleText,
    imported_modules,
    origins,
)


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


Find = Callable[[str], ModuleText | None]


def fold(main: ModuleText, find: Find, arguments: Sequence[str] = ()) -> Script:
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
    if not _reads_docstrings(body):
        body = without_docstrings(body)
    return Script.of(ast.Module([*_future(futures), *body], []))


class _Modules:
    """The modules by name, each after those that it imports."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self.loaded: dict[str, Module] = {}
        self._emitted: set[str] = set()

    def load(self, text: ModuleText) -> None:
        """Parse a module and all modules that it imports."""
        try:
            tree = ast.parse(text.text)
        except (SyntaxError, ValueError) as error:
            raise CannotFold(f"{text.name} cannot be parsed by the Python of repro-kit ({error})") from error
        tree.body = [statement for statement in tree.body if not _never_runs(statement, text.name)]
        declared = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
        module = Module(text.name, text.package, tree, bound(tree.body) | declared)
        self.loaded[text.name] = module
        for node in ast.walk(tree):
            for name in imported_modules(node, module):
                self._load_named(name)
            if isinstance(node, ast.Import | ast.ImportFrom):
                module.imports.update(origins(node))

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
            imports = Imports(self.loaded, module)
            for statement in module.tree.body:
                module.parts.append((imports.needed(statement), imports.replaced(statement)))

    def settle_names(self) -> None:
        """Choose a name in the one file for every name that a module defines."""
        taken: dict[str, str] = {}
        hidden = {name: local_names(module.tree) for name, module in self.loaded.items()}
        for module in sorted(self.loaded.values(), key=lambda module: module.name != MAIN):
            others = set().union(*(names for name, names in hidden.items() if name != module.name))
            for name in sorted(module.defined - set(module.aliases)):
                meaning = module.imports.get(name) or f"{module.name}:{name}"
                is_import = name in module.imports
                clashes = not is_import and module.name != MAIN and (name in others or hasattr(builtins, name))
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
        self._emit(self.loaded[MAIN], body)
        return without_repeated_imports(body)

    def _emit(self, module: Module, body: list[ast.stmt]) -> None:
        self._emitted.add(module.name)
        for needed, statements in module.parts:
            for name in needed:
                if name not in self._emitted:
                    self._emit(self.loaded[name], body)
            body += statements
        if module.as_value:
            pairs = ", ".join(f"{name}={new}" for name, new in sorted(module.renamed.items()))
            body += ast.parse(f"{_value_name(module)} = __import__('types').SimpleNamespace({pairs})").body

    def value_of(self, module: Module) -> ast.expr:
        """An expression for the module itself."""
        module.as_value = True
        return ast.Name(_value_name(module), ast.Load())


def _flat_name(module: Module) -> str:
    return module.name.replace(".", "_").strip("_")


def _value_name(module: Module) -> str:
    return f"module_{_flat_name(module)}"


def _never_runs(statement: ast.stmt, module: str) -> bool:
    """Whether the statement does nothing in an imported module: for type checkers only, or for the main program."""
    if not isinstance(statement, ast.If) or statement.orelse:
        return False
    test = ast.unparse(statement.test)
    is_main = test in ("__name__ == '__main__'", "'__main__' == __name__")
    return test in ("TYPE_CHECKING", "typing.TYPE_CHECKING") or (is_main and module != MAIN)


def _reads_docstrings(body: list[ast.stmt]) -> bool:
    """Whether the program looks at the docstring of a function or a class."""
    names = {name for statement in body for node in ast.walk(statement) for name in _names_of(node)}
    return bool(names & {"__doc__", "getdoc"})


def _names_of(node: ast.AST) -> tuple[str, ...]:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name) | ast.alias(name=name):
            return (name,)
    return ()


def _futures(tree: ast.Module) -> list[str]:
    """The language features that a module asks for."""
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    return [alias.name for node in imports for alias in node.names]


def _future(names: Iterable[str]) -> list[ast.stmt]:
    wanted = [ast.alias(name) for name in sorted(set(names))]
    return [ast.ImportFrom("__future__", wanted, 0)] if wanted else []


class _References(GlobalNames):
    """Gives every reference to a name of a module its name in the one file."""

    def __init__(self, modules: _Modules, module: Module) -> None:
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
        if root.id == "__doc__" and "__doc__" not in self._module.defined:
            value: ast.expr = ast.Constant(ast.get_docstring(self._module.tree, clean=False))
            for name in chain:
                value = ast.Attribute(value, name, ast.Load())
            return value
        if root.id == "__name__" and self._module.name != MAIN and not chain:
            return ast.Constant(self._module.name)
        if REFERENCE in root.id:
            name, _, inner = root.id.partition(REFERENCE)
            return self._through(self._modules.loaded[name], inner or None, chain, context, node)
        if root.id not in self._module.aliases:
            return ast.Name(self._module.renamed.get(root.id, root.id), context) if not chain else node
        return self._through(*self._module.aliases[root.id], chain, context, node)

    def _through(
        self, source: Module, inner: str | None, chain: list[str], context: ast.expr_context, node: ast.expr
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
