"""Edits that make plain code of decorators."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from repro_kit.source.proposals.any_arguments import spelled_out
from repro_kit.source.proposals.calls import arguments_of
from repro_kit.source.scopes import substituted
from repro_kit.source.tree import Edits, NumberedTree

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def decorators(numbered: NumberedTree) -> Iterator[Edits]:
    """For each decorator that a function of one expression makes: that; for a lambda: its value where the use is."""
    for node in numbered.nodes:
        if isinstance(node, _Function):
            edits = [_made(numbered, decorator) for decorator in node.decorator_list]
            if not isinstance(numbered.parent(node), ast.ClassDef):
                match node.decorator_list:
                    case [ast.Lambda() as only]:
                        edits.append(_at_use(numbered, node, only))
            yield from filter(None, edits)


def _made(numbered: NumberedTree, decorator: ast.expr) -> Edits | None:
    """``@make(1)`` becomes what ``make`` returns, if ``make`` has no other use."""
    if not (isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name)):
        return None
    name = decorator.func.id
    mentions = numbered.mentions(name)
    for node in numbered.tree.body:
        match node:
            case ast.FunctionDef(name=defined, decorator_list=[]) if defined == name and len(mentions) == 1:
                function = spelled_out(node, decorator)
                arguments = None if function is None else arguments_of(function, decorator)
                if function is None or arguments is None or not all(map(_is_constant, arguments.values())):
                    return None
                value = _returned(function)
                if value is not None:
                    return {numbered.number(decorator): substituted(value, arguments), numbered.number(node): None}
    return None


def _is_constant(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant)


def _returned(function: ast.FunctionDef) -> ast.expr | None:
    """The expression that a function of one statement returns; of an inner function of one statement, as a lambda."""
    match function.body:
        case [ast.Return(value=ast.expr() as value)]:
            return value
        case [
            ast.FunctionDef(name=inner, args=parameters, body=[ast.Return(value=ast.expr() as value)]),
            ast.Return(value=ast.Name(id=returned)),
        ] if inner == returned:
            return ast.Lambda(parameters, value)
    return None


def _at_use(numbered: NumberedTree, function: _Function, decorator: ast.Lambda) -> Edits | None:
    """The function without its decorator, and what the decorator makes of it where it is used, if in one place."""
    mentions = numbered.mentions(function.name)
    if len(mentions) != 1 or not isinstance(mentions[0].ctx, ast.Load):
        return None
    arguments = arguments_of(decorator, ast.Call(decorator, [mentions[0]], []))
    if arguments is None:
        return None
    return {
        numbered.number(decorator): None,
        numbered.number(mentions[0]): substituted(decorator.body, arguments),
    }
