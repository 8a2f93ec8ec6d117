"""Functions of any arguments (``*args``, ``**kwargs``) that are called once: a parameter for each argument."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence


def spelled_out(function: ast.FunctionDef, call: ast.Call) -> ast.FunctionDef | None:
    """`function` with a parameter for each argument of `call`, in place of ``*args`` and ``**kwargs``.

    None if the call does not show the arguments, or a name is taken.
    """
    own = function.args
    if own.vararg is None and own.kwarg is None:
        return function
    if any(isinstance(value, ast.Starred) for value in call.args) or any(each.arg is None for each in call.keywords):
        return None
    named = [each.arg for each in (*own.posonlyargs, *own.args, *own.kwonlyargs)]
    places = len(own.posonlyargs) + len(own.args)
    more = [f"{own.vararg.arg}_{at}" for at in range(len(call.args) - places)] if own.vararg else []
    keywords = [each.arg for each in call.keywords if each.arg and each.arg not in named] if own.kwarg else []
    taken = {*named, *(node.id for node in ast.walk(function) if isinstance(node, ast.Name))}
    if taken & {*more, *keywords}:
        return None
    spread = _Spread(own.vararg.arg if own.vararg else "", more, own.kwarg.arg if own.kwarg else "", keywords)
    changed = copy.copy(function)
    changed.body = [spread.visit(copy.deepcopy(statement)) for statement in function.body]
    changed.args = copy.copy(own)
    changed.args.vararg = changed.args.kwarg = None
    if more:  # all places before these are given
        changed.args.args, changed.args.defaults = [*own.args, *map(ast.arg, more)], []
    changed.args.kwonlyargs = [*own.kwonlyargs, *map(ast.arg, keywords)]
    changed.args.kw_defaults = [*own.kw_defaults, *(None for _ in keywords)]
    return changed


class _Spread(ast.NodeTransformer):
    """Writes names in place of ``*args`` and ``**kwargs``, and a tuple or a dict of them in place of other uses."""

    def __init__(self, args: str, places: Sequence[str], kwargs: str, keywords: Sequence[str]) -> None:
        self._args, self._kwargs = args, kwargs
        self._values = [ast.Name(name, ast.Load()) for name in places]
        self._keywords = [ast.keyword(name, ast.Name(name, ast.Load())) for name in keywords]

    def visit_Call(self, node: ast.Call) -> ast.AST:
        node.args = [each for value in node.args for each in (self._values if self._is_args(value) else [value])]
        node.keywords = [
            each for word in node.keywords for each in (self._keywords if self._is_kwargs(word) else [word])
        ]
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id == self._args and self._args:
            return ast.Tuple(list(self._values), ast.Load())
        if node.id == self._kwargs and self._kwargs:
            names = [ast.Constant(word.arg) for word in self._keywords]
            return ast.Dict(list(names), [word.value for word in self._keywords])
        return node

    def _is_args(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Starred) and isinstance(node.value, ast.Name) and node.value.id == self._args

    def _is_kwargs(self, node: ast.keyword) -> bool:
        return node.arg is None and isinstance(node.value, ast.Name) and node.value.id == self._kwargs
