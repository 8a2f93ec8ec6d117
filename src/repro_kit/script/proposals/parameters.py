"""Edits of parameters: drop them with their arguments, or name each of any arguments."""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from repro_kit.script.tree import Edits, NumberedTree, Replacement, bound_by

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class _Passed:
    """The arguments of one call: those of the call itself, or a tuple of them: ``export(model, (x, y))``."""

    values: list[ast.expr]
    keywords: list[ast.keyword]


def parameters(numbered: NumberedTree) -> Iterator[Edits]:
    """For each parameter: drop it with its arguments. A plain argument, or the default, takes its place in the body."""
    for node in numbered.nodes:
        if isinstance(node, _Function):
            for parameter in (*node.args.args, *node.args.kwonlyargs):
                if parameter.arg not in ("self", "cls"):
                    for passed in _passed_to(numbered, node):
                        edits = _without_parameter(numbered, node, parameter, passed)
                        if edits is not None:
                            yield edits


def _passed_to(numbered: NumberedTree, function: _Function) -> Iterator[list[_Passed]]:
    """What is passed to `function` by its name; for what an instance does when it is called, also where it may be so.

    An instance may also be passed on with a tuple of its arguments, as to torch.export.export.
    """
    owner = numbered.parent(function)
    every = [node for node in numbered.nodes if isinstance(node, ast.Call)]
    if isinstance(function, ast.Lambda):
        name = _assigned_to(owner)
        seen = [call for call in every if _calls_there(call, function) or (name and _calls(call, name))]
        yield from [list(map(_of_call, seen))] if seen else []
        return
    name = owner.name if isinstance(owner, ast.ClassDef) and function.name == "__init__" else function.name
    named = [call for call in every if _calls(call, name)]
    yield list(map(_of_call, named))
    if function.name in ("forward", "__call__"):
        count, known = len(function.args.args) - 1, _known_names(numbered)
        like = [call for call in every if len(call.args) == count and _root(call.func) not in known]
        if like:
            yield [*map(_of_call, named), *(_of_call(call) for call in like if call not in named)]
        tuples = [value for call in every for value in _second(call) if len(value.elts) == count]
        if tuples:
            yield [*map(_of_call, named), *(_Passed(value.elts, []) for value in tuples)]


def _of_call(call: ast.Call) -> _Passed:
    return _Passed(call.args, call.keywords)


def _second(call: ast.Call) -> Iterator[ast.Tuple]:
    """The second argument, or the one that is called ``args``, if it is a tuple that is written out."""
    values = [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "args")]
    yield from (value for value in values if isinstance(value, ast.Tuple))


def _known_names(numbered: NumberedTree) -> set[str]:
    """The names of functions, classes and modules, which are no instances."""
    names = set(dir(builtins))
    for node in numbered.nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.alias():
                names.add(bound_by(node))
    return names


def _root(function: ast.expr) -> str:
    """The name at the start of what is called: ``nn`` for ``nn.Linear``; "" where that is the result of a call."""
    while isinstance(function, ast.Attribute | ast.Subscript):
        function = function.value
    return function.id if isinstance(function, ast.Name) else ""


def _without_parameter(
    numbered: NumberedTree, function: _Function, parameter: ast.arg, calls: Sequence[_Passed]
) -> Edits | None:
    edits: dict[int, Replacement] = {}
    values: list[ast.expr] = []
    offset = isinstance(numbered.parent(function), ast.ClassDef)
    place = function.args.args.index(parameter) - offset if parameter in function.args.args else -1
    for call in calls:
        if any(isinstance(value, ast.Starred) for value in call.values):
            return None
        if 0 <= place < len(call.values):
            values.append(call.values[place])
            edits[numbered.number(call.values[place])] = None
        for keyword in call.keywords:
            if keyword.arg == parameter.arg:
                values.append(keyword.value)
                edits[numbered.number(keyword)] = None
    values += filter(None, [_default(function.args, parameter)])
    uses = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == parameter.arg]
    if uses and not (values and isinstance(values[0], ast.Constant | ast.Name)):
        return None
    edits |= {numbered.number(use): values[0] for use in uses}
    edits[numbered.number(function.args)] = without(function.args, parameter)
    return edits


def _calls(call: ast.Call, name: str) -> bool:
    """Whether the call is one of this function, or of what others made of it: ``torch.compile(grad(f))(x)``."""
    match call.func:
        case ast.Name(id=called) | ast.Attribute(attr=called) if called == name:
            return True
    return any(isinstance(made, ast.Name) and made.id == name for made in _made_of(call.func))


def _calls_there(call: ast.Call, function: ast.Lambda) -> bool:
    """Whether the call is one of this lambda where it stands, or of what others make of it there."""
    return call.func is function or any(made is function for made in _made_of(call.func))


def _made_of(called: ast.expr) -> Iterator[ast.expr]:
    """What a called expression is made of: the first argument of the call, and that of a call that it is."""
    while isinstance(called, ast.Call) and called.args:
        called = called.args[0]
        yield called


def _assigned_to(statement: ast.AST | None) -> str:
    """The one name that the statement assigns; "" where it assigns none, or several."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return ""


def _default(arguments: ast.arguments, parameter: ast.arg) -> ast.expr | None:
    if parameter in arguments.kwonlyargs:
        return arguments.kw_defaults[arguments.kwonlyargs.index(parameter)]
    at = arguments.args.index(parameter) - len(arguments.args) + len(arguments.defaults)
    return arguments.defaults[at] if at >= 0 else None


def without(arguments: ast.arguments, parameter: ast.arg) -> ast.arguments:
    """The parameters of a function without one of them."""
    fewer = copy.copy(arguments)
    if parameter in arguments.kwonlyargs:
        at = arguments.kwonlyargs.index(parameter)
        fewer.kwonlyargs = [*arguments.kwonlyargs[:at], *arguments.kwonlyargs[at + 1 :]]
        fewer.kw_defaults = [*arguments.kw_defaults[:at], *arguments.kw_defaults[at + 1 :]]
        return fewer
    at = arguments.args.index(parameter)
    fewer.args = [*arguments.args[:at], *arguments.args[at + 1 :]]
    default = at - len(arguments.args) + len(arguments.defaults)
    if default >= 0:
        fewer.defaults = [*arguments.defaults[:default], *arguments.defaults[default + 1 :]]
    return fewer


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
