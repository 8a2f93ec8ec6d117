"""Edits that end functions where the failure showed: nothing after the failing statement is needed to fail alike."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from itertools import takewhile

from repro_kit.source.slices import own_lines
from repro_kit.source.tree import Edits, NumberedTree, Replacement, blocks

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
