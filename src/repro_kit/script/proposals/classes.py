"""Edits that dissolve a class: functions in place of its methods, variables in place of its attributes."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from repro_kit.script.proposals.inline import arguments_of, readings, scope_of, statement_of, with_values
from repro_kit.script.proposals.parameters import without
from repro_kit.script.proposals.structure import bound_together, names_and_values
from repro_kit.script.tree import Edits, NumberedTree, Replacement

_ITEM = "__getitem__"
_SPECIAL = {"property", "cached_property", "setter", "deleter", "staticmethod", "classmethod", "abstractmethod"}
_CALLED = ("forward", "__call__")  # methods that run when an instance is called

_Names = Mapping[str, str]  # of methods and attributes -> of functions and variables


def classes(numbered: NumberedTree) -> Iterator[Edits]:
    """For each class of methods only that is used through its instances: the edits that dissolve it.

    Attributes are set where the only instance is made, else in the place of the class. Instances share them then, which
    is for the search to judge.
    """
    for node in numbered.tree.body:
        if isinstance(node, ast.ClassDef) and not node.decorator_list:
            methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
            if len(methods) == len(node.body) and all(part.args.args and not _is_special(part) for part in methods):
                edits = _dissolved(numbered, node, methods)
                if edits is not None:
                    yield edits


def unboxed(numbered: NumberedTree) -> Iterator[Edits]:
    """For each class around one value, such as a list of records: the value itself, and functions of it.

    ``log.add(x)`` becomes ``add(log, x)``, where `log` is the list. An instance may be handed on, unlike in `classes`.
    """
    for node in numbered.tree.body:
        if isinstance(node, ast.ClassDef) and not (node.decorator_list or node.bases or node.keywords):
            methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
            init = next((method for method in methods if method.name == "__init__"), None)
            if init is not None and len(methods) == len(node.body):
                edits = _unboxed(numbered, node, init, [method for method in methods if method is not init])
                if edits is not None:
                    yield edits


def _unboxed(
    numbered: NumberedTree, cls: ast.ClassDef, init: ast.FunctionDef, methods: Sequence[ast.FunctionDef]
) -> Edits | None:
    names = {method.name for method in methods}
    plain = all(not (part.name.startswith("__") or part.decorator_list) and part.args.args for part in methods)
    match init.body:
        case [ast.Assign([ast.Attribute(ast.Name(), attr)], value)] if plain and not any(map(numbered.mentions, names)):
            pass
        case _:
            return None
    edits: dict[int, Replacement] = {}
    for call in (made := _made(numbered, cls.name)):
        arguments = arguments_of(_function(init, {}), call)
        placed = None if arguments is None else with_values(value, arguments)
        if placed is None:
            return None
        edits[numbered.number(call)] = placed
    for node in numbered.nodes:
        if not isinstance(node, ast.Attribute) or node.attr not in {attr, *names} or init in numbered.above(node):
            continue
        above = numbered.parent(node)
        if node.attr == attr and isinstance(node.ctx, ast.Load):
            edits[numbered.number(node)] = node.value
        elif isinstance(above, ast.Call) and above.func is node:
            called = ast.Name(node.attr, ast.Load())
            edits[numbered.number(above)] = ast.Call(called, [node.value, *above.args], above.keywords)
        else:
            return None
    return edits | {numbered.number(cls): methods} if made else None


def _is_special(method: ast.FunctionDef) -> bool:
    """Whether a decorator makes something else of the method than a function of the instance."""
    names = {
        getattr(part, "attr", getattr(part, "id", ""))
        for decorator in method.decorator_list
        for part in ast.walk(decorator)
    }
    return not names.isdisjoint(_SPECIAL)


def _dissolved(numbered: NumberedTree, cls: ast.ClassDef, methods: Sequence[ast.FunctionDef]) -> Edits | None:
    made = _made(numbered, cls.name)
    instances = _instances(numbered, made)
    init = next((method for method in methods if method.name == "__init__"), None)
    setting = _setting(numbered, init, made[0]) if init is not None and made else _Setting()
    if not made or setting is None:
        return None
    called = next((method.name for method in methods if method.name in _CALLED), None)
    names = {name: name for method in methods for name in (method.name, *_attributes(method))}
    name = cls.name if called is None else _name_of_only(numbered, made) or cls.name
    if called is not None:
        names[called] = name
    uses = [_use(numbered, node, names, None if called is None else name) for node in instances]
    uses += [_own_uses(numbered, method, names) for method in methods]
    edits: dict[int, Replacement] = {}
    for use in uses:
        if use is None:
            return None
        edits |= use
    functions = [_function(method, names) for method in methods if method is not init]
    return edits | setting.edits | _placed(numbered, cls, made, setting.statements, functions)


def _made(numbered: NumberedTree, name: str) -> list[ast.Call]:
    """The calls that make the instances of the class; none if it has other uses."""
    mentions = numbered.mentions(name)
    above = [numbered.parent(mention) for mention in mentions]
    made = [call for call in above if isinstance(call, ast.Call) and call.func in mentions]
    return made if len(made) == len(mentions) else []


def _name_of_only(numbered: NumberedTree, made: Sequence[ast.Call]) -> str:
    """The name of the only instance: as a function's it leaves every use as it is. "" if there are several, or none."""
    bound = _bound(numbered, made[0]) if len(made) == 1 else None
    if bound is None or numbered.parent(bound.statement) is not numbered.tree:
        return ""
    return names_and_values(bound.statement)[0][bound.place].id


def _attributes(method: ast.FunctionDef) -> set[str]:
    """The attributes of the instance that a method sets."""
    own = method.args.args[0].arg
    return {
        node.attr
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == own
    }


@dataclass(frozen=True)
class _Bound:
    """The statement that gives an instance a name, perhaps with others, the place of the name, and its readings."""

    statement: ast.AST
    place: int
    uses: Sequence[ast.Name]


def _bound(numbered: NumberedTree, call: ast.Call) -> _Bound | None:
    """How the instance that `call` makes gets a name; None if it gets none, or one that is assigned anew."""
    above = numbered.parent(call)
    statement = numbered.parent(above) if isinstance(above, ast.Tuple) else above
    names, values = names_and_values(statement)
    place = next((at for at, value in enumerate(values) if value is call), None)
    if place is None or statement is None:
        return None
    uses = readings(scope_of(numbered, statement), names[place])
    return _Bound(statement, place, uses) if uses else None


def _instances(numbered: NumberedTree, made: Sequence[ast.Call]) -> list[ast.expr]:
    """The expressions that are an instance: the readings of its name, else the calls that make it."""
    found: list[ast.expr] = []
    for call in made:
        bound = _bound(numbered, call)
        found += bound.uses if bound is not None else [call]
    return found


def _use(numbered: NumberedTree, instance: ast.expr, names: _Names, called: str | None) -> Edits | None:
    """The edit that does without the instance where it is used; None for any other use than that of a name."""
    match numbered.parent(instance):
        case ast.Attribute(attr=attr, ctx=context) as whole:
            return {numbered.number(whole): ast.Name(names[attr], context)} if attr in names else None
        case ast.Subscript(value=value, slice=item, ctx=ast.Load()) as whole if value is instance and _ITEM in names:
            return {numbered.number(whole): ast.Call(ast.Name(names[_ITEM], ast.Load()), [item], [])}
    return {numbered.number(instance): ast.Name(called, ast.Load())} if called is not None else None


def _own_uses(numbered: NumberedTree, method: ast.FunctionDef, names: _Names) -> Edits | None:
    """The edits that do without ``self`` in a method; None if it has other uses than that of a name."""
    edits: dict[int, Replacement] = {}
    for node in ast.walk(method):
        match node:
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"))
            ):
                edits[numbered.number(node)] = None
            case ast.Name(id=name) if name == method.args.args[0].arg:
                use = _use(numbered, node, names, None)
                if use is None:
                    return None
                edits |= use
    return edits


@dataclass(frozen=True)
class _Setting:
    """What ``__init__`` does: the edits that put plain arguments in place, and the statements."""

    edits: dict[int, Replacement] = field(default_factory=dict)
    statements: Sequence[ast.stmt] = ()


def _setting(numbered: NumberedTree, init: ast.FunctionDef, call: ast.Call) -> _Setting | None:
    arguments = arguments_of(_function(init, {}), call)
    if arguments is None:
        return None
    plain = {name: value for name, value in arguments.items() if isinstance(value, ast.Name | ast.Constant)}
    uses = [node for node in ast.walk(init) if isinstance(node, ast.Name) and node.id in plain]
    assigned = [ast.Assign([ast.Name(name, ast.Store())], arguments[name]) for name in arguments if name not in plain]
    return _Setting({numbered.number(use): plain[use.id] for use in uses}, [*assigned, *init.body])


def _function(method: ast.FunctionDef, names: _Names) -> ast.FunctionDef:
    """The method as a function: without its first parameter, under the name in `names`."""
    function = copy.copy(method)
    function.name = names.get(method.name, method.name)
    function.args = without(method.args, method.args.args[0])
    stored = sorted(_attributes(method) & names.keys())
    if stored:
        function.body = [ast.Global(stored), *method.body]
    return function


def _placed(
    numbered: NumberedTree,
    cls: ast.ClassDef,
    made: Sequence[ast.Call],
    setting: Sequence[ast.stmt],
    functions: Sequence[ast.stmt],
) -> dict[int, Replacement]:
    """The functions in place of the class, `setting` where it belongs, and no assignment of an instance."""
    edits = _without_instances(numbered, made)
    statement = statement_of(numbered, made[0])
    if len(made) > 1 or statement is None or scope_of(numbered, statement) is not numbered.tree:
        return edits | {numbered.number(cls): [*setting, *functions]}
    kept = edits.get(numbered.number(statement), statement)
    return edits | {numbered.number(cls): functions, numbered.number(statement): [*setting, *([kept] if kept else [])]}


def _without_instances(numbered: NumberedTree, made: Sequence[ast.Call]) -> dict[int, Any]:
    """The statements that give instances names, without these names: None if nothing is left of a statement."""
    gone: dict[ast.AST, set[int]] = {}
    for bound in filter(None, (_bound(numbered, call) for call in made)):
        gone.setdefault(bound.statement, set()).add(bound.place)
    left: dict[int, ast.stmt | None] = {}
    for statement, places in gone.items():
        names, values = names_and_values(statement)
        others = [at for at in range(len(names)) if at not in places]
        left[numbered.number(statement)] = bound_together(names, values, others) if others else None
    return left
