"""The statements that a failure may depend on: a guess from the text alone, which the search then tries.

A statement is needed if it binds or changes a name that a needed statement mentions. Names are compared as text,
without scopes, and attributes count as names, so the guess errs on both sides: a run of the candidate decides. This is
the backward slice of Weiser, "Program slicing" (1984), without the flow of control.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from types import UnionType

from repro_kit.source.tree import NumberedTree, blocks, bound_by

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Loop = ast.For | ast.AsyncFor | ast.While
#: Methods that torch calls without their name in the text.
_CALLED = frozenset({"forward", "backward", "setup_context"})


def outside_slices(numbered: NumberedTree, lines: Iterable[int]) -> list[list[int]]:
    """For a tight slice and for a loose one: the numbers of the statements that do not belong to it.

    `lines`: where the failure showed, such as the lines of its traceback. Empty if no statement is there. Of a
    function that the failure did not pass through, the tight slice keeps the results and what they need, and the loose
    one keeps everything.
    """
    wanted = set(lines)
    statements = [node for node in numbered.nodes if isinstance(node, ast.stmt)]
    seeds = [statement for statement in statements if wanted & own_lines(statement)]
    return [_outside(numbered, statements, seeds, whole) for whole in (False, True)] if seeds else []


def own_lines(statement: ast.stmt) -> set[int]:
    """The lines of a statement without those of its blocks."""
    first = min((item.lineno for block in blocks(statement) for item in block if hasattr(item, "lineno")), default=None)
    end = statement.end_lineno or statement.lineno
    return set(range(statement.lineno, max(statement.lineno + 1, end + 1 if first is None else first)))


def _outside(
    numbered: NumberedTree, statements: Sequence[ast.stmt], seeds: Sequence[ast.stmt], whole: bool
) -> list[int]:
    needed = _Needed(numbered, seeds, whole)
    count = -1
    while count != len(needed.statements):
        count = len(needed.statements)
        for statement in statements:
            if statement not in needed.statements and needed.needs(statement):
                needed.add(statement)
    return [
        numbered.number(statement)
        for statement in statements
        if statement not in needed.statements and not isinstance(statement, ast.Pass)
    ]


class _Needed:
    """The statements needed so far, and the names that they mention."""

    def __init__(self, numbered: NumberedTree, seeds: Sequence[ast.stmt], whole: bool) -> None:
        self.statements: set[ast.stmt] = set()
        self._numbered, self._whole = numbered, whole
        self._names: set[str] = set()
        for seed in seeds:
            self.add(seed)
        self._passed = {self._around(seed, _Definition) for seed in seeds}

    def add(self, statement: ast.stmt) -> None:
        """Add a statement, the statements around it, and the names that all of these mention."""
        for node in (statement, *self._numbered.above(statement)):
            if isinstance(node, ast.stmt) and node not in self.statements:
                self.statements.add(node)
                self._names |= set(_mentioned(node))

    def needs(self, statement: ast.stmt) -> bool:
        """Whether the statement gives a needed name its value, or belongs to a needed definition."""
        owner = self._around(statement, _Definition)
        if owner is not None and owner not in self.statements:
            return False
        if isinstance(statement, _Definition) and isinstance(owner, ast.ClassDef):
            is_implicit = statement.name in _CALLED or statement.name.startswith("__")
            return is_implicit or statement.name in self._names
        if isinstance(owner, ast.ClassDef) and isinstance(statement, ast.AnnAssign):
            return True  # a field of a dataclass
        if isinstance(statement, ast.ImportFrom) and (
            statement.module == "__future__" or statement.names[0].name == "*"
        ):
            return True
        if isinstance(statement, ast.Break | ast.Continue):
            return self._around(statement, _Loop) in self.statements
        if isinstance(owner, _Function) and (self._gives(statement) or (self._whole and owner not in self._passed)):
            return True
        return not self._names.isdisjoint(_changed(statement))

    def _gives(self, statement: ast.stmt) -> bool:
        """Whether the statement gives a result of its function, or makes its object ready."""
        return isinstance(statement, ast.Return | ast.Global | ast.Nonlocal) or any(
            isinstance(node, ast.Yield | ast.YieldFrom) or (isinstance(node, ast.Name) and node.id == "super")
            for node in _own(statement)
        )

    def _around(self, statement: ast.stmt, kind: UnionType) -> ast.stmt | None:
        above = (node for node in self._numbered.above(statement) if isinstance(node, ast.stmt))
        return next((node for node in above if isinstance(node, kind)), None)


def _mentioned(statement: ast.stmt) -> Iterator[str]:
    """The names in a statement, without those in the statements inside it."""
    for node in _own(statement):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.Constant(value=str(text)):
                yield text  # `getattr(x, "name")`, `MODELS.build("name")`


def _changed(statement: ast.stmt) -> Iterator[str]:
    """The names to which a statement gives a value, or whose values it may change."""
    for node in _own(statement):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
                yield from registry_keys(node)
            case ast.alias(name=name) if name != "*":
                yield bound_by(node)
            case ast.Subscript(ctx=ast.Store() | ast.Del(), value=value):
                yield from _last_name(value)
    match statement:
        case ast.Expr(value=ast.Call(func=function, args=arguments)):
            for argument in arguments:
                yield from _last_name(argument)
            if isinstance(function, ast.Attribute):
                yield from _last_name(function.value)


def registry_keys(definition: _Definition) -> Iterator[str]:
    """The texts under which a decorator may enter the definition in a registry: ``@MODELS.register("name")``."""
    for decorator in definition.decorator_list:
        if isinstance(decorator, ast.Call):
            for value in (*decorator.args, *(keyword.value for keyword in decorator.keywords)):
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield value.value


def _last_name(value: ast.expr) -> Iterator[str]:
    """The name of what an expression reads: `a` for ``a``, ``self.a`` and ``a[0]``."""
    match value:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            yield name
        case ast.Subscript(value=inner):
            yield from _last_name(inner)


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """A statement and its expressions, without the statements inside it."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.stmt):
            yield from _own(child)
