"""Edits across statements: put a value or a function in the place of its only use."""

from __future__ import annotations

import ast
import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from repro_kit.script.proposals.parameters import spelled_out, without
from repro_kit.script.proposals.structure import first_of, names_and_values
from repro_kit.script.scopes import FUNCTIONS, own_names, substituted
from repro_kit.script.tree import Edits, NumberedTree

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


_ENDS = (ast.Return, ast.Yield, ast.YieldFrom)
#: Statements that evaluate most of the expressions directly in them once.
_ONCE = (ast.Expr, ast.Assign, ast.AugAssign, ast.Return, ast.If, ast.For, ast.With, ast.Assert, ast.Raise)
_PLAIN = (ast.Name, ast.Constant)
#: Expressions that evaluate their parts in their own scope, perhaps not at all, or often.
_OF_THEIR_OWN = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.IfExp, ast.BoolOp)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def variables(numbered: NumberedTree) -> Iterator[Edits]:
    """For each variable that is assigned once and read once: its value in place of the reading.

    Variables that a statement assigns together are put in place together; if one value is unpacked, and one of its
    parts is read, that part. A variable that is only another name for a value may be read more often, and a chain of
    attributes twice.
    """
    for node in numbered.nodes:
        pairs = list(zip(*names_and_values(node), strict=True))
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value) if not isinstance(value, ast.Tuple):
                pairs = _only_part(numbered, node, targets, value)
        places = [(readings(scope_of(numbered, node), target), value) for target, value in pairs]
        if pairs and all(0 < len(uses) <= most_readings(value) for uses, value in places):
            values_there = {numbered.number(use): value for uses, value in places for use in uses}
            yield {numbered.number(node): None, **values_there}


def _only_part(
    numbered: NumberedTree, statement: ast.Assign, targets: Sequence[ast.expr], value: ast.expr
) -> list[tuple[ast.Name, ast.expr]]:
    """The one name of `targets` that is mentioned elsewhere, and its part of the value; else nothing."""
    if not all(isinstance(target, ast.Name) for target in targets):
        return []
    scope = scope_of(numbered, statement)
    elsewhere = [node for node in ast.walk(scope) if isinstance(node, ast.Name) and node not in targets]
    named = {node.id for node in elsewhere}
    used = [at for at, target in enumerate(targets) if isinstance(target, ast.Name) and target.id in named]
    if len(used) != 1:
        return []
    target = targets[used[0]]
    assert isinstance(target, ast.Name)
    return [(target, ast.Subscript(value, ast.Constant(used[0]), ast.Load()))]


def most_readings(value: ast.expr) -> float:
    """How often a variable may be read whose value is put in its place."""
    if isinstance(value, _PLAIN):
        return math.inf
    while isinstance(value, ast.Attribute):
        value = value.value
        if isinstance(value, ast.Name):
            return 2
    return 1


def readings(scope: ast.AST, target: ast.Name) -> list[ast.Name]:
    """The other places in `scope` that have the name of `target`, where all of them read the name."""
    uses = [node for node in _named(scope).get(target.id, ()) if node is not target]
    return uses if all(isinstance(use.ctx, ast.Load) for use in uses) else []


@lru_cache(maxsize=32)  # nodes of a numbered tree do not change
def _named(scope: ast.AST) -> dict[str, list[ast.Name]]:
    """The places of each name in `scope`, but not those in a function inside that binds the name itself."""
    places: dict[str, list[ast.Name]] = {}

    def look(node: ast.AST, hidden: frozenset[str]) -> None:
        if isinstance(node, ast.Name) and node.id not in hidden:
            places.setdefault(node.id, []).append(node)
        inner = hidden | own_names(node) if isinstance(node, FUNCTIONS) else hidden
        for field, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    look(child, inner if field == "body" else hidden)  # defaults belong to the scope around

    for child in ast.iter_child_nodes(scope):
        look(child, frozenset())
    return places


def scope_of(numbered: NumberedTree, node: ast.AST) -> ast.AST:
    """The function around `node`, else the module."""
    return next((outer for outer in numbered.above(node) if isinstance(outer, FUNCTIONS)), numbered.tree)


def functions(numbered: NumberedTree) -> Iterator[Edits]:
    """For each function that is called once: its body before the statement of the call, and its value in that place."""
    for node in numbered.nodes:
        if not isinstance(node, ast.FunctionDef) or node.decorator_list:
            continue
        call = numbered.only_call(numbered.mentions(node.name))
        if call is not None:
            yield from _in_place(numbered, node, node, call)


def methods(numbered: NumberedTree) -> Iterator[Edits]:
    """For each method that only another method of its class calls, once: its body before the statement of the call."""
    for node in numbered.nodes:
        cls = numbered.parent(node)
        if not isinstance(node, ast.FunctionDef) or not isinstance(cls, ast.ClassDef):
            continue
        mentions = [other for other in numbered.nodes if isinstance(other, ast.Attribute) and other.attr == node.name]
        call = numbered.only_call(mentions)
        caller = None if call is None else scope_of(numbered, call)
        if call is not None and caller in cls.body and caller is not node:
            function = _as_function(node, mentions[0].value, caller)
            yield from _in_place(numbered, node, function, call) if function is not None else ()


def _in_place(
    numbered: NumberedTree, definition: ast.FunctionDef, function: ast.FunctionDef, call: ast.Call
) -> Iterator[Edits]:
    """The edit that puts the body of `function` in the place of its only call, without its definition."""
    statement, plain = statement_of(numbered, call), spelled_out(function, call)
    body = None if statement is None or plain is None else _inlined(plain, call, statement)
    if statement is not None and body is not None:
        yield {numbered.number(statement): body, numbered.number(definition): None}


def _as_function(method: ast.FunctionDef, instance: ast.expr, caller: ast.AST) -> ast.FunctionDef | None:
    """The method as a function of its other arguments; None if `caller` has another name for the instance."""
    function = copy.copy(method)
    if [ast.unparse(each) for each in method.decorator_list] == ["staticmethod"]:
        function.decorator_list = []
        return function
    own, others = method.args.args[:1], caller.args.args[:1] if isinstance(caller, ast.FunctionDef) else []
    names = {*(parameter.arg for parameter in (*own, *others)), ast.unparse(instance)}
    if method.decorator_list or not own or not others or len(names) > 1:
        return None
    function.args = without(method.args, own[0])
    return function


def lambdas(numbered: NumberedTree) -> Iterator[Edits]:
    """For each function of one expression that is mentioned once, and not called there: a lambda in that place."""
    for node in numbered.nodes:
        match node:
            case ast.FunctionDef(
                decorator_list=[], body=[ast.Return(value=ast.expr() as value) | ast.Expr(value=value)]
            ):
                mentions = numbered.mentions(node.name)
                is_called = numbered.only_call(mentions) is not None
                if len(mentions) == 1 and not is_called and not isinstance(numbered.parent(node), ast.ClassDef):
                    yield {numbered.number(mentions[0]): ast.Lambda(node.args, value), numbered.number(node): None}


def called_lambdas(numbered: NumberedTree) -> Iterator[Edits]:
    """For each lambda that is called where it stands: its expression, with the arguments in the places of its names."""
    for node in numbered.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Lambda):
            arguments = arguments_of(node.func, node)
            body = node.func.body
            if arguments is None or any(isinstance(part, (ast.NamedExpr, *_OF_THEIR_OWN)) for part in ast.walk(body)):
                continue
            value = with_values(body, arguments)
            if value is not None:
                yield {numbered.number(node): value}


def with_values(expression: ast.expr, values: Mapping[str, ast.expr]) -> ast.expr | None:
    """`expression` with values in place of names; None if one of them would then be computed too often."""
    read = [part.id for part in ast.walk(expression) if isinstance(part, ast.Name)]
    if any(read.count(name) > most_readings(value) for name, value in values.items()):
        return None
    return substituted(expression, values)


def first_items(numbered: NumberedTree) -> Iterator[Edits]:
    """For each comprehension: its element for the first item, alone or as the only one of its collection.

    Of ``next(f(x) for x in …)`` the same.
    """
    for node in numbered.nodes:
        match node:
            case ast.Call(func=ast.Name(id="next"), args=[ast.GeneratorExp(elt=value, generators=[each])]):
                whole: ast.expr = value
            case ast.DictComp(key=key, value=value, generators=[each]):
                whole = ast.Dict([key], [value])
            case ast.ListComp(elt=value, generators=[each]) | ast.GeneratorExp(elt=value, generators=[each]):
                whole = ast.List([value], ast.Load())
            case ast.SetComp(elt=value, generators=[each]):
                whole = ast.Set([value])
            case _:
                continue
        bound = dict(_bound(each.target, first_of(each.iter)))
        for element in dict.fromkeys((value, whole)):
            placed = with_values(element, bound)
            if placed is not None:
                yield {numbered.number(node): placed}


def _bound(target: ast.expr, item: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Each name in `target`, to which `item` is assigned, with its part of the item."""
    match target, item:
        case ast.Name(id=name), _:
            yield name, item
        case ast.Tuple(elts=targets), ast.Tuple(elts=items) if len(targets) == len(items):
            for part, value in zip(targets, items, strict=True):
                yield from _bound(part, value)
        case ast.Tuple(elts=targets), _:
            for at, part in enumerate(targets):
                yield from _bound(part, ast.Subscript(item, ast.Constant(at), ast.Load()))


def statement_of(numbered: NumberedTree, call: ast.Call) -> ast.stmt | None:
    """The statement around `call`; None if the call may run in another scope, not at all, or often."""
    above = numbered.parent(call)
    while isinstance(above, ast.expr | ast.keyword | ast.withitem) and not isinstance(above, _OF_THEIR_OWN):
        above = numbered.parent(above)
    return above if isinstance(above, _ONCE) else None


def _inlined(function: ast.FunctionDef, call: ast.Call, statement: ast.stmt) -> list[ast.stmt] | None:
    """The body of `function` for this call; None if its arguments or its returns do not allow it."""
    bound = bound_arguments(function, call)
    last = function.body[-1]
    ends = [node for node in _own_nodes(function) if isinstance(node, _ENDS) and node is not last]
    if bound is None or not all(isinstance(node, ast.Return) for node in ends):
        return None
    if ends:
        placed = ended(bound[1], call, statement)
        return None if placed is None else [*bound[0], *placed]
    body = [*bound[0], *bound[1]]
    value = body.pop().value if isinstance(last, ast.Return) else None  # type: ignore[attr-defined]
    is_whole = isinstance(statement, ast.Expr) and statement.value is call
    if is_whole and (value is None or isinstance(value, ast.Name | ast.Constant)):
        return body
    return [*body, with_value(statement, call, value or ast.Constant(None))]


def bound_arguments(function: ast.FunctionDef, call: ast.Call) -> tuple[list[ast.stmt], list[ast.stmt]] | None:
    """The statements that give the parameters their values, and a copy of the body with plain arguments in place.

    None if the text does not show the arguments.
    """
    arguments = arguments_of(function, call)
    if arguments is None:
        return None
    own = _own_nodes(function)
    stored = {node.id for node in own if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    simple = {
        name: value
        for name, value in arguments.items()
        if name not in stored and isinstance(value, ast.Name | ast.Constant)
    }
    assigned = [(name, value) for name, value in arguments.items() if name not in simple]
    statements: list[ast.stmt] = [ast.Assign([ast.Name(name, ast.Store())], value) for name, value in assigned]
    return statements, [substituted(part, simple) for part in function.body]


def with_value(node: ast.AST, call: ast.Call, value: ast.expr) -> Any:
    """A copy of `node` with `value` in the place of `call`."""
    if node is call:
        return value
    changed = copy.copy(node)
    for name, part in ast.iter_fields(node):
        if isinstance(part, ast.AST):
            setattr(changed, name, with_value(part, call, value))
        elif isinstance(part, list):
            parts = [with_value(item, call, value) if isinstance(item, ast.AST) else item for item in part]
            setattr(changed, name, parts)
    return changed


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without those of functions inside it."""
    for child in ast.iter_child_nodes(function):
        yield child
        if not isinstance(child, FUNCTIONS):
            yield from _own_nodes(child)


def arguments_of(function: _Function | ast.Lambda, call: ast.Call) -> dict[str, ast.expr] | None:
    """The argument of each parameter; None if the text does not show them."""
    parameters = function.args
    names = [parameter.arg for parameter in (*parameters.posonlyargs, *parameters.args)]
    if parameters.vararg or parameters.kwarg or any(isinstance(value, ast.Starred) for value in call.args):
        return None
    if len(call.args) > len(names) or any(keyword.arg is None for keyword in call.keywords):
        return None
    values = dict(zip(names[len(names) - len(parameters.defaults) :], parameters.defaults, strict=True))
    for parameter, default in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True):
        if default is not None:
            values[parameter.arg] = default
    values |= dict(zip(names, call.args, strict=False))
    values |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    every = {*names, *(parameter.arg for parameter in parameters.kwonlyargs)}
    return values if every == values.keys() else None
