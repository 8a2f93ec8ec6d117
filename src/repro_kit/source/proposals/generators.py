"""Edits that run the body of a loop, a ``with`` block or a statement where a generator function yields."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from repro_kit.source.proposals.any_arguments import spelled_out
from repro_kit.source.proposals.calls import bound_arguments, statement_of, with_value
from repro_kit.source.scopes import FUNCTIONS
from repro_kit.source.tree import Edits, NumberedTree

_JUMPS = (ast.Break, ast.Continue)
_OTHERS = (ast.For, ast.AsyncFor, ast.While, ast.ClassDef, *FUNCTIONS)  # jumps in these are their own


def generators(numbered: NumberedTree) -> Iterator[Edits]:
    """For each generator function that one loop or one ``with`` block runs: its body around that of the block.

    ``for x in batches(2): step(x)`` becomes the body of `batches` with ``x = …; step(x)`` in place of ``yield …``.
    """
    for node in numbered.nodes:
        match node:
            case ast.For(target=target, iter=ast.Call() as call, orelse=[]) if not _jumps(node.body):
                managed = False
            case ast.With(items=[ast.withitem(context_expr=ast.Call() as call, optional_vars=target)]):
                managed = True
            case _:
                continue
        function = _generator(numbered, call)
        plain = spelled_out(function, call) if function is not None and _is_manager(function) is managed else None
        bound = None if plain is None else bound_arguments(plain, call)
        body = None if bound is None else _around(bound[1], target, node.body)
        if function is not None and bound is not None and body is not None:
            yield {numbered.number(node): [*bound[0], *body], numbered.number(function): None}


def first_yields(numbered: NumberedTree) -> Iterator[Edits]:
    """For each ``next(…)`` of a generator function that nothing else calls: its statements up to what it yields."""
    for node in numbered.nodes:
        match node:
            case ast.Call(
                func=ast.Name(id="next"), args=[ast.Call(func=ast.Name(id="iter"), args=[ast.Call() as call])]
            ):
                pass
            case ast.Call(func=ast.Name(id="next"), args=[ast.Call() as call]):
                pass
            case _:
                continue
        function, statement = _generator(numbered, call), statement_of(numbered, node)
        plain = None if function is None else spelled_out(function, call)
        bound = None if plain is None else bound_arguments(plain, call)
        if function is None or statement is None or bound is None:
            continue
        for at, part in enumerate(bound[1]):
            match part:
                case ast.Expr(value=ast.Yield(value=ast.expr() as value)):
                    body = [*bound[0], *bound[1][:at], with_value(statement, node, value)]
                    yield {numbered.number(statement): body, numbered.number(function): None}


def _generator(numbered: NumberedTree, call: ast.Call) -> ast.FunctionDef | None:
    """The function of the script that `call` calls, if nothing else mentions it and it yields once."""
    if not isinstance(call.func, ast.Name):
        return None
    name = call.func.id
    found = [node for node in numbered.nodes if isinstance(node, ast.FunctionDef) and node.name == name]
    if len(numbered.mentions(name)) != 1 or len(found) != 1:
        return None
    yields = [node for node in ast.walk(found[0]) if isinstance(node, ast.Yield | ast.YieldFrom)]
    returns = any(isinstance(node, ast.Return) for node in ast.walk(found[0]))
    inner = any(isinstance(node, FUNCTIONS) and node is not found[0] for node in ast.walk(found[0]))
    return found[0] if len(yields) == 1 and not returns and not inner else None


def _is_manager(function: ast.FunctionDef) -> bool:
    return any(ast.unparse(each).endswith("contextmanager") for each in function.decorator_list)


def _jumps(body: Iterable[ast.AST]) -> bool:
    """Whether the body ends its own loop, or a turn of the loop: that would be another loop's then."""
    return any(
        isinstance(node, _JUMPS) or (not isinstance(node, _OTHERS) and _jumps(ast.iter_child_nodes(node)))
        for node in body
    )


def _around(own: Sequence[ast.stmt], target: ast.expr | None, body: Sequence[ast.stmt]) -> list[ast.stmt] | None:
    """The statements of the generator with `body` in place of ``yield``; None if it yields within an expression."""
    place = _Place(target, body)
    around = [part for statement in own for part in place.put(statement)]
    return around if place.found else None


class _Place(ast.NodeTransformer):
    def __init__(self, target: ast.expr | None, body: Sequence[ast.stmt]) -> None:
        self._target, self._body = target, list(body)
        self.found = False

    def put(self, statement: ast.stmt) -> list[ast.stmt]:
        put = self.visit(statement)
        return put if isinstance(put, list) else [put]

    def visit_Expr(self, node: ast.Expr) -> ast.stmt | list[ast.stmt]:
        match node.value:
            case ast.Yield(value=value):
                self.found = True
                given = value or ast.Constant(None)
                if self._target is None:
                    return self._body if value is None else [ast.Expr(value), *self._body]
                return [ast.Assign([self._target], given), *self._body]
            case ast.YieldFrom(value=value) if self._target is not None:
                self.found = True
                return ast.For(self._target, value, self._body, [])
        return node
