"""What the returns of a function become where its body takes the place of a call."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from repro_kit.source.scopes import FUNCTIONS

_Put = Callable[[ast.expr | None], list[ast.stmt]]


def ended(body: Sequence[ast.stmt], call: ast.Call, statement: ast.stmt) -> list[ast.stmt] | None:
    """The body of a function in the place of `statement`, which is only its call, or returns or assigns its value.

    A function may end in several places: ``if c: return a`` and ``return b`` become ``if c: x = a`` and
    ``else: x = b``. None if a return is within a loop or a similar statement, if statements would be needed in
    two branches, or if the statement does more with the value.
    """
    match statement:
        case ast.Return(value=value) if value is call:
            last = [] if body and isinstance(body[-1], ast.Return) else [ast.Return(None)]
            return [*body, *last]
        case ast.Expr(value=value) if value is call:
            return _ended(body, lambda value: [] if value is None else [ast.Expr(value)])
        case ast.Assign(targets=targets, value=value) if value is call:
            return _ended(body, lambda value: [ast.Assign(targets, ast.Constant(None) if value is None else value)])
    return None


def _ended(body: Sequence[ast.stmt], put: _Put) -> list[ast.stmt] | None:
    """The statements with `put` in place of each return, and at the end where the function ends without one."""
    for at, statement in enumerate(body):
        if not _returns(statement):
            continue
        before, after = list(body[:at]), body[at + 1 :]
        match statement:
            case ast.Return(value=value):
                return [*before, *put(value)]
            case ast.If(test=test, body=inner, orelse=other):
                if after and not _always_ends(inner) and not _always_ends(other):
                    return None
                parts = [_ended(block if _always_ends(block) else [*block, *after], put) for block in (inner, other)]
                if parts[0] is None or parts[1] is None:
                    return None
                return [*before, ast.If(test, parts[0] or [ast.Pass()], parts[1])]
            case ast.With(items=items, body=inner) if not after:
                within = _ended(inner, put)
                return None if within is None else [*before, ast.With(items, within or [ast.Pass()])]
            case ast.Try() if not after and not statement.orelse and not _returns(*statement.finalbody):
                tried = _tried(statement, put)
                return None if tried is None else [*before, tried]
        return None
    return [*body, *put(None)]


def _always_ends(block: Sequence[ast.stmt]) -> bool:
    """Whether nothing after the block runs, as far as its last statement shows."""
    return bool(block) and isinstance(block[-1], ast.Return | ast.Raise)


def _tried(statement: ast.Try, put: _Put) -> ast.stmt | None:
    body, handlers = _ended(statement.body, put), []
    for handler in statement.handlers:
        handled = _ended(handler.body, put)
        if handled is None:
            return None
        handlers.append(ast.ExceptHandler(handler.type, handler.name, handled or [ast.Pass()]))
    return None if body is None else ast.Try(body or [ast.Pass()], handlers, [], statement.finalbody)


def _returns(*statements: ast.AST) -> bool:
    """Whether one of the statements holds a return of the function that they are part of."""
    return any(
        isinstance(node, ast.Return) or (not isinstance(node, FUNCTIONS) and _returns(*ast.iter_child_nodes(node)))
        for node in statements
    )
