"""An edit that drops a parameter with its arguments."""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Iterator, Sequence

from repro_kit.source.tree import Edits, NumberedTree, Replacement

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def parameters(numbered: NumberedTree) -> Iterator[Edits]:
    """For each parameter: drop it with its arguments. A plain argument, or the default, takes its place in the body."""
    for node in numbered.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for parameter in (*node.args.args, *node.args.kwonlyargs):
                if parameter.arg not in ("self", "cls"):
                    for calls in _calls_of(numbered, node):
                        edits = _without_parameter(numbered, node, parameter, calls)
                        if edits is not None:
                            yield edits


def _calls_of(numbered: NumberedTree, function: _Function) -> Iterator[list[ast.Call]]:
    """The calls of `function` by its name; for what an instance does when it is called, also those that may be such."""
    owner = numbered.parent(function)
    name = owner.name if isinstance(owner, ast.ClassDef) and function.name == "__init__" else function.name
    every = [node for node in numbered.nodes if isinstance(node, ast.Call)]
    named = [call for call in every if _calls(call, name)]
    yield named
    if function.name in ("forward", "__call__"):
        count, known = len(function.args.args) - 1, _known_names(numbered)
        like = [call for call in every if len(call.args) == count and _root(call.func) not in known]
        if like:
            yield [*named, *(call for call in like if call not in named)]


def _known_names(numbered: NumberedTree) -> set[str]:
    """The names of functions, classes and modules, which are no instances."""
    names = set(dir(builtins))
    for node in numbered.nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.alias(name=name, asname=asname):
                names.add(asname or name.partition(".")[0])
    return names


def _root(function: ast.expr) -> str:
    """The name at the start of what is called: ``nn`` for ``nn.Linear``; "" where that is the result of a call."""
    while isinstance(function, ast.Attribute | ast.Subscript):
        function = function.value
    return function.id if isinstance(function, ast.Name) else ""


def _without_parameter(
    numbered: NumberedTree, function: _Function, parameter: ast.arg, calls: Sequence[ast.Call]
) -> Edits | None:
    edits: dict[int, Replacement] = {}
    values: list[ast.expr] = []
    offset = isinstance(numbered.parent(function), ast.ClassDef)
    place = function.args.args.index(parameter) - offset if parameter in function.args.args else -1
    for call in calls:
        if any(isinstance(value, ast.Starred) for value in call.args):
            return None
        if 0 <= place < len(call.args):
            values.append(call.args[place])
            edits[numbered.number(call.args[place])] = None
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
    """Whether the call is one of this function, or of what another made of it: ``torch.compile(f)(x)``."""
    match call.func:
        case ast.Call(args=[ast.Name(id=called), *_]):
            return called == name
        case ast.Name(id=called) | ast.Attribute(attr=called):
            return called == name
    return False


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
