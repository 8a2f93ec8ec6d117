"""The statements of a failure: those that it may depend on, those that decide it, and what comes after it."""

from __future__ import annotations

import ast
import builtins
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import takewhile
from types import UnionType

from repro_kit.script.tree import (
    Edits,
    NumberedTree,
    Replacement,
    Script,
    blocks,
    bound_by,
    names_in,
    preorder,
    statements,
)

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


#: Parts of the names of functions that compare values, or make one number of many.
_COMPARES = (
    "close",
    "equal",
    "isnan",
    "isfinite",
    "isinf",
    "assert",
    "abs",
    "max",
    "norm",
    "item",
    "any",
    "all",
    "diff",
)


def decisive(program: Script, line: int) -> tuple[str, ...]:
    """The texts of the check that raised at `line`: the statement, the conditions around it, and what they compare."""
    around = [
        statement
        for statement in statements(program.tree)
        if statement.lineno <= line <= (statement.end_lineno or statement.lineno)
    ]
    if not around:
        return ()
    innermost = around[-1]
    tests = [statement.test for statement in around if isinstance(statement, ast.If | ast.While)]
    parts: list[ast.AST] = [*tests, *([] if _blocks(innermost) else [innermost])]
    scope = next((node for node in reversed(around) if isinstance(node, ast.FunctionDef)), program.tree)
    return tuple(dict.fromkeys(ast.unparse(part) for part in _with_sources(parts, scope)))


def running(program: Script, lines: Iterable[int]) -> tuple[str, ...]:
    """The texts of the innermost statements at `lines`, those of a traceback; statements with blocks are left out."""
    at = [
        [it for it in statements(program.tree) if it.lineno <= line <= (it.end_lineno or it.lineno)] for line in lines
    ]
    innermost = [around[-1] for around in at if around and not _blocks(around[-1])]
    return tuple(dict.fromkeys(map(ast.unparse, innermost)))


def keeps(program: Script, decisive_texts: tuple[str, ...]) -> bool:
    """Whether the program has all of `decisive_texts`."""
    texts = Counter(map(ast.unparse, deciding_parts(program.tree)))
    return all(texts[text] >= count for text, count in Counter(decisive_texts).items())


def deciding_parts(tree: ast.AST) -> Iterator[ast.AST]:
    """What may decide whether a script fails: conditions, and statements without blocks."""
    for statement in statements(tree):
        if isinstance(statement, ast.If | ast.While):
            yield statement.test
        elif not _blocks(statement):
            yield statement


def _blocks(statement: ast.stmt) -> bool:
    return bool(getattr(statement, "body", None))


def _with_sources(parts: list[ast.AST], scope: ast.AST) -> Iterator[ast.AST]:
    """`parts`, and the assignments in `scope` that compute a comparison that they read."""
    waiting, seen = list(parts), set[int]()
    while waiting:
        part = waiting.pop(0)
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        read = names_in(part)
        for node in preorder(scope):
            if isinstance(node, ast.Assign) and _compares(node.value) and names_in(*node.targets) & read:
                waiting.append(node)


def _compares(value: ast.AST) -> bool:
    for node in ast.walk(value):
        if isinstance(node, ast.Compare):
            return True
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            if any(part in name for part in _COMPARES):
                return True
    return False


_FunctionOrLambda = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Scope = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def cut_off(numbered: NumberedTree, lines: Sequence[int]) -> list[Edits]:
    """For each function with statements on `lines`, and for the module: edits that drop what comes after them there.

    `lines`: where the failure showed, such as the lines of its traceback, the outermost call first; so are the edits.
    A failing call is kept without the statement or the calls that take its result, since a cut function has none.
    """
    wanted = set(lines)
    statements = [node for node in numbered.nodes if isinstance(node, ast.stmt) and wanted & own_lines(node)]
    scopes: dict[ast.AST, list[ast.stmt]] = {}
    for statement in sorted(statements, key=lambda it: min(lines.index(line) for line in own_lines(it) & wanted)):
        scopes.setdefault(_scope(numbered, statement), []).append(statement)
    names = {scope.name for scope in scopes if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef)}
    every = [_of_scope(numbered, scope, failing, names) for scope, failing in scopes.items() if not _yields(scope)]
    return [edits for edits in every if edits]


def _scope(numbered: NumberedTree, statement: ast.stmt) -> ast.AST:
    return next(node for node in numbered.above(statement) if isinstance(node, _Scope))


def _yields(scope: ast.AST) -> bool:
    """Whether the scope is a generator, or a class: its definitions are no steps of a run."""
    return isinstance(scope, ast.ClassDef) or any(_is_yield(child) for child in ast.iter_child_nodes(scope))


def _is_yield(node: ast.AST) -> bool:
    if isinstance(node, ast.Yield | ast.YieldFrom):
        return True
    return not isinstance(node, _FunctionOrLambda) and any(map(_is_yield, ast.iter_child_nodes(node)))


def _of_scope(numbered: NumberedTree, scope: ast.AST, failing: Sequence[ast.stmt], names: set[str]) -> Edits:
    needed: set[ast.AST] = set()
    for statement in failing:
        inside = takewhile(lambda node: node is not scope, numbered.above(statement))
        needed.update((statement, *inside))
    edits: dict[int, Replacement] = {}
    for owner in (scope, *needed):
        for block in blocks(owner):
            last = max((at for at, item in enumerate(block) if item in needed), default=None)
            if last is not None:
                edits.update({numbered.number(item): None for item in block[last + 1 :] if not _is_handler(item)})
    for statement in failing:
        call = _call(statement, names)
        if call is not None:
            edits[numbered.number(statement)] = [ast.Expr(call)]
    return edits


def _is_handler(node: ast.AST) -> bool:
    return isinstance(node, ast.ExceptHandler | ast.match_case | ast.Pass)


def _call(statement: ast.stmt, names: set[str]) -> ast.expr | None:
    """What of a failing statement runs until it fails: the call of a cut function, else all that gives the value."""
    value = getattr(statement, "value", None)
    if not isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Return) or value is None:
        return None
    calls = [node for node in ast.walk(value) if isinstance(node, ast.Call) and _name(node.func) in names]
    call: ast.expr = calls[0] if calls else value
    return None if isinstance(statement, ast.Expr) and call is value else call


def _name(function: ast.expr) -> str:
    return getattr(function, "attr", getattr(function, "id", ""))


_EXITS = ("sys.exit", "exit", "quit", "os._exit", "SystemExit")
_BUILTINS = frozenset(dir(builtins)) - {"exec", "eval", "globals", "locals", "vars", "getattr"}


def exits_by_no_tensor(source: str) -> bool:
    """Whether a script ends itself only by conditions that it computes with Python's own functions.

    As by the number of loaded modules. What the script's functions, torch or other packages give may be a tensor.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return False
    exits = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) in _EXITS]
    failing = [call for call in exits if call.args and ast.unparse(call.args[0]) not in ("0", "None")]
    tests = [_condition_of(tree, call) for call in failing]
    values = {
        target.id: statement.value
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    known = _BUILTINS | {
        bound_by(alias)
        for node in tree.body
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name.partition(".")[0] in sys.stdlib_module_names
    }
    return bool(tests) and all(test is not None and _is_of(test, values, known, set()) for test in tests)


def _condition_of(tree: ast.Module, call: ast.Call) -> ast.expr | None:
    """The condition of the innermost ``if`` around `call`."""
    around = [node for node in ast.walk(tree) if isinstance(node, ast.If) and call in ast.walk(node)]
    return around[-1].test if around else None


def _is_of(value: ast.expr, values: Mapping[str, ast.expr], known: Set[str], seen: set[str]) -> bool:
    """Whether `value` is computed of `known` names alone, as far as the module's assignments tell."""
    for name in {node.id for node in ast.walk(value) if isinstance(node, ast.Name)} - seen - known:
        if name not in values or not _is_of(values[name], values, known, seen | {name}):
            return False
    return True
