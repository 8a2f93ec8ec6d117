"""Which names of a module are global, and which belong to a function or a class."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from repro_kit.script.tree import bound_by

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def bound(body: list[ast.stmt], *, imports: bool = True) -> set[str]:
    """The names that statements bind in their own scope. `imports`: those that imports bind as well."""
    return {name for statement in body for name in _bound(statement, imports=imports)}


def _bound(node: ast.AST, *, imports: bool = True) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
            for inner in [*node.decorator_list, *(getattr(node, "bases", []))]:
                yield from _bound(inner, imports=imports)
            return
        case ast.Lambda():
            return
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.alias():
            if imports:
                yield bound_by(node)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            for inner in ast.walk(node):
                if isinstance(inner, ast.NamedExpr):
                    yield from _bound(inner.target, imports=imports)
            return
    for child in ast.iter_child_nodes(node):
        yield from _bound(child, imports=imports)


def own_names(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, *, imports: bool = True) -> set[str]:
    """The parameters and local names of a function."""
    parameters = function.args
    every = [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs, parameters.vararg, parameters.kwarg]
    names = {parameter.arg for parameter in every if parameter is not None}
    if isinstance(function, ast.Lambda):
        return names
    declared = {name for node in ast.walk(function) if isinstance(node, ast.Global) for name in node.names}
    return (names | bound(function.body, imports=imports)) - declared


def local_names(tree: ast.AST, *, imports: bool = True) -> set[str]:
    """Every name that some function, class or comprehension below `tree` binds for itself."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            names |= own_names(node, imports=imports)
        elif isinstance(node, ast.ClassDef):
            names |= bound(node.body, imports=imports)
        elif isinstance(node, COMPREHENSIONS):
            names |= {name for generator in node.generators for name in _bound(generator.target)}
    return names


class GlobalNames(ast.NodeTransformer):
    """Passes every name and attribute chain that starts in the module's own scope to `change`, which may replace it."""

    def __init__(self, change: Callable[[ast.expr], ast.expr]) -> None:
        self._change = change
        self._hidden: list[set[str]] = []

    def is_global(self, name: str) -> bool:
        """Whether `name` is the module's here."""
        return not any(name in names for names in self._hidden)

    def _rename_definition(self, node: ast.AST) -> None:
        if not self._hidden and not isinstance(node, ast.Lambda):
            changed = self._change(ast.Name(node.name, ast.Store()))  # type: ignore[attr-defined]
            node.name = changed.id if isinstance(changed, ast.Name) else node.name  # type: ignore[attr-defined]

    @property
    def in_function(self) -> bool:
        """Whether the visited node is inside a function or a class."""
        return bool(self._hidden)

    def _within(self, names: set[str], node: ast.AST) -> None:
        self._hidden.append(names)
        for field, value in ast.iter_fields(node):
            if field not in ("decorator_list", "bases", "keywords", "returns", "args"):
                setattr(node, field, self._visited(value))
        self._hidden.pop()

    def _visited(self, value: object) -> object:
        if isinstance(value, list):
            return [self.visit(item) if isinstance(item, ast.AST) else item for item in value]
        return self.visit(value) if isinstance(value, ast.AST) else value

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> ast.AST:
        self._rename_definition(node)
        for field in ("decorator_list", "returns"):
            if getattr(node, field, None) is not None:
                setattr(node, field, self._visited(getattr(node, field)))
        node.args = self.visit(node.args)  # defaults and annotations belong to the scope around
        self._within(own_names(node), node)
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Names of the class body hide the module's, but not in the methods."""
        self._rename_definition(node)
        for field in ("decorator_list", "bases", "keywords"):
            setattr(node, field, self._visited(getattr(node, field)))
        names = bound(node.body)
        for at, statement in enumerate(node.body):
            is_method = isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            self._hidden.append(set() if is_method else names)
            node.body[at] = self.visit(statement)
            self._hidden.pop()
        return node

    def _comprehension(self, node: ast.AST) -> ast.AST:
        self._within({name for generator in node.generators for name in _bound(generator.target)}, node)  # type: ignore[attr-defined]
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """A chain of attributes is offered as a whole first: ``package.module.name``."""
        root = node.value
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and self.is_global(root.id):
            changed = self._change(node)
            if changed is not node:
                return changed
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A name of the module."""
        return self._change(node) if self.is_global(node.id) else node

    def visit_Global(self, node: ast.Global) -> ast.AST:
        """A declaration has the new names too."""
        changed = [self._change(ast.Name(name, ast.Load())) for name in node.names]
        node.names = [name.id for name in changed if isinstance(name, ast.Name)]
        return node


Node = TypeVar("Node", bound=ast.AST)


def substituted(tree: Node, values: Mapping[str, ast.expr]) -> Node:
    """A copy of `tree` with expressions in place of names."""
    changed: Node = _Substituted(values).visit(copy.deepcopy(tree))
    return changed


class _Substituted(ast.NodeTransformer):
    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A name, perhaps one to replace."""
        return copy.deepcopy(self._values.get(node.id, node))
