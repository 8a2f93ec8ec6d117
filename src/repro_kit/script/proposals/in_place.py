"""Edits that put expressions where they are used: at each call, at a reading, in place of a decorator."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from repro_kit.script.proposals.inline import arguments_of, most_readings, with_values
from repro_kit.script.proposals.parameters import spelled_out
from repro_kit.script.proposals.structure import bound_together, names_and_values
from repro_kit.script.scopes import own_names, substituted
from repro_kit.script.tree import Edits, NumberedTree, Replacement, blocks, names_in


def expression_functions(numbered: NumberedTree) -> Iterator[Edits]:
    """For each function of one expression that is only called: the expression at each call, also in a lambda."""
    for node in numbered.nodes:
        match node:
            case ast.FunctionDef(
                name=name, decorator_list=[], body=[ast.Return(value=ast.expr() as value) | ast.Expr(value=value)]
            ):
                calls = _calls(numbered, numbered.mentions(name))
                makes_generator = isinstance(value, ast.Yield | ast.YieldFrom)
                if calls and not makes_generator and not isinstance(numbered.parent(node), ast.ClassDef):
                    edits = _at_each(numbered, node, value, calls)
                    if edits is not None:
                        yield edits


def reassigned(numbered: NumberedTree) -> Iterator[Edits]:
    """For each value of a name that only the next statement reads, since that returns or assigns the name anew.

    The value comes in place of the reading: ``x = f(x); return g(x)`` becomes ``return g(f(x))``.
    """
    for node in numbered.nodes:
        names, values = names_and_values(node)
        for at, (name, value) in enumerate(zip(names, values, strict=True)):
            after = _next(numbered, node)
            uses = [
                part
                for part in (ast.walk(after) if after is not None and _ends(after, name.id) else ())
                if isinstance(part, ast.Name) and part.id == name.id and isinstance(part.ctx, ast.Load)
            ]
            if 0 < len(uses) <= most_readings(value):
                others = [place for place in range(len(names)) if place != at]
                rest = bound_together(names, values, others) if others else None
                yield {numbered.number(node): rest, **{numbered.number(use): value for use in uses}}


def _calls(numbered: NumberedTree, mentions: Sequence[ast.Name]) -> list[ast.Call]:
    """The calls that the mentions are the functions of; none if a mention is another."""
    above = [(mention, numbered.parent(mention)) for mention in mentions]
    calls = [call for mention, call in above if isinstance(call, ast.Call) and call.func is mention]
    return calls if len(calls) == len(mentions) else []


def _at_each(
    numbered: NumberedTree, function: ast.FunctionDef, value: ast.expr, calls: Sequence[ast.Call]
) -> Edits | None:
    """The edits that put `value` in place of each call; None if the arguments do not allow it."""
    edits: dict[int, Replacement] = {numbered.number(function): None}
    for call in calls:
        arguments = arguments_of(function, call)
        placed = None if arguments is None else with_values(value, arguments)
        if placed is None:
            return None
        edits[numbered.number(call)] = placed
    return edits


def _next(numbered: NumberedTree, statement: ast.AST) -> ast.stmt | None:
    """The statement after `statement` in the same block."""
    parent = numbered.parent(statement)
    for _, block in ast.iter_fields(parent) if parent is not None else ():
        if isinstance(block, list) and any(part is statement for part in block):
            after = next(at for at, part in enumerate(block) if part is statement) + 1
            return block[after] if after < len(block) else None
    return None


def _ends(statement: ast.stmt, name: str) -> bool:
    """Whether no later statement sees the value that `name` had before this one."""
    match statement:
        case ast.Return():
            return True
        case ast.Assign(targets=[ast.Name(id=target)]):
            return target == name
    return False


def accumulated(numbered: NumberedTree) -> Iterator[Edits]:
    """For each name that one statement assigns, and the next one that mentions it adds to: one statement for both.

    ``a = []`` and ``a.append(x)`` become ``a = [x]``; ``a = {}`` and ``a[k] = x`` become ``a = {k: x}``; of ``a = 0``
    and ``a += x``, and of any other constant and operator, ``a = x`` is left. The statement is where the second was.
    """
    for node in numbered.nodes:
        for block in blocks(node):
            names = [names_in(statement) for statement in block]
            for at, statement in enumerate(block):
                match statement:
                    case ast.Assign(targets=[ast.Name(id=name)], value=value):
                        later = next((place for place in range(at + 1, len(block)) if name in names[place]), None)
                        after = None if later is None else block[later]
                        together = None if after is None else _together(name, value, after)
                        if together is not None and after is not None:
                            assigned = ast.Assign(statement.targets, together)
                            yield {numbered.number(statement): None, numbered.number(after): assigned}


def _together(name: str, value: ast.expr, after: ast.stmt) -> ast.expr | None:
    """The value of the name after both statements; None if it is not known, or needs the name itself."""
    match value, after:
        case (
            ast.List(elts=items),
            ast.Expr(ast.Call(ast.Attribute(ast.Name(id=other), "append"), [item], [])),
        ) if other == name and name not in names_in(item) and not isinstance(item, ast.Starred):
            return ast.List([*items, item], ast.Load())
        case ast.Dict(keys=keys, values=values), ast.Assign([ast.Subscript(ast.Name(id=other), key)], item) if (
            other == name and name not in names_in(item, key)
        ):
            return ast.Dict([*keys, key], [*values, item])
        case ast.Constant(), ast.AugAssign(ast.Name(id=other), value=item) if other == name:
            return None if name in names_in(item) else item
    return None


#: Methods of a module that set an attribute by its name.
_SETTERS = ("register_buffer", "register_parameter", "add_module", "register_module")


def attributes(numbered: NumberedTree) -> Iterator[Edits]:
    """For each attribute that ``__init__`` sets from no local name, and that is read once: the value in that place.

    The value is then computed at each reading; the search judges whether that is allowed.
    """
    named: dict[str, list[ast.Attribute]] = {}
    for node in numbered.nodes:
        if isinstance(node, ast.Attribute):
            named.setdefault(node.attr, []).append(node)
    for init in numbered.nodes:
        if not (isinstance(init, ast.FunctionDef) and init.name == "__init__"):
            continue
        own = own_names(init)
        for statement in init.body:
            attr, value, stores = _set(statement)
            mentions = named.get(attr, [])
            reads = [node for node in mentions if isinstance(node.ctx, ast.Load)]
            if value is not None and not own & names_in(value) and len(reads) == 1 and len(mentions) == 1 + stores:
                yield {numbered.number(statement): None, numbered.number(reads[0]): value}


def _set(statement: ast.stmt) -> tuple[str, ast.expr | None, int]:
    """The attribute that the statement sets, the value, and how often the statement has the attribute as one."""
    match statement:
        case ast.Assign(targets=[ast.Attribute(attr=attr)], value=value):
            return attr, value, 1
        case ast.Expr(ast.Call(ast.Attribute(attr=function), [ast.Constant(str(attr)), value, *_])):
            return (attr, value, 0) if function in _SETTERS else ("", None, 0)
    return "", None, 0


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
