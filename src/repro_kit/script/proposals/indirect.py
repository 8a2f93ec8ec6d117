"""Edits that do at once what pools, coroutines, generators and registries do later or by name."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from repro_kit.script.failing_statements import registry_keys
from repro_kit.script.proposals.inline import bound_arguments, readings, scope_of, statement_of, with_value
from repro_kit.script.proposals.parameters import spelled_out
from repro_kit.script.scopes import FUNCTIONS
from repro_kit.script.tree import Edits, NumberedTree, Replacement

_RUNS = ("run", "run_until_complete", "create_task", "ensure_future", "wait_for", "shield")


def coroutines(numbered: NumberedTree) -> Iterator[Edits]:
    """All coroutines of a script as functions, and plain calls of them."""
    if any(isinstance(node, ast.AsyncFunctionDef) for node in numbered.nodes):
        plain = ((number, _at_once(node)) for number, node in enumerate(numbered.nodes))
        yield {number: replacement for number, replacement in plain if replacement is not None}


def _at_once(node: ast.AST) -> Replacement:
    """What takes the place of the node; None for a node that stays."""
    match node:
        case ast.AsyncFunctionDef():
            return ast.FunctionDef(**{name: getattr(node, name) for name in node._fields})
        case ast.AsyncWith():
            return ast.With(node.items, node.body)
        case ast.AsyncFor():
            return ast.For(node.target, node.iter, node.body, node.orelse)
        case ast.Await(value=value):
            return value
        case ast.Call(func=ast.Attribute(attr="run_in_executor"), args=[_, function, *arguments]):
            return ast.Call(function, arguments, [])
        case ast.Call(func=ast.Attribute(attr="to_thread"), args=[function, *arguments]):
            return ast.Call(function, arguments, node.keywords)
        case ast.Call(func=ast.Attribute(attr="gather"), args=made):
            return ast.List(made, ast.Load())
        case ast.Call(func=ast.Attribute(attr=attr), args=[made, *_]) if attr in _RUNS:
            return made
    return None


_WAITS = ("result", "start", "join")


def pools(numbered: NumberedTree) -> Iterator[Edits]:
    """All work that is handed to a pool or a thread as plain calls, and none of the pools that have no other use."""
    edits: dict[int, Replacement] = {}
    owners: set[int] = set()
    for number, node in enumerate(numbered.nodes):
        plain = _plain(node)
        if plain is not None:
            edits[number] = plain
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owners.add(numbered.number(node.func.value))
    if edits:
        yield edits | _without_pools(numbered, owners) | _without_waits(numbered)


def _plain(node: ast.AST) -> ast.expr | None:
    """The plain call that does what `node` hands out; None for anything else."""
    match node:
        case ast.Call(func=ast.Attribute(attr="submit"), args=[function, *rest]):
            return ast.Call(function, rest, node.keywords)
        case ast.Call(func=ast.Attribute(attr="map"), args=[_, _, *_]):
            call = ast.Call(ast.Name("map", ast.Load()), node.args, [])
            return ast.Call(ast.Name("list", ast.Load()), [call], [])
        case ast.Call(func=ast.Attribute(attr="Thread") | ast.Name(id="Thread"), args=[]):
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            arguments = given.get("args", ast.Tuple([], ast.Load()))
            if "target" in given and isinstance(arguments, ast.Tuple | ast.List):
                return ast.Call(given["target"], arguments.elts, [])
    return None


def _without_pools(numbered: NumberedTree, owners: set[int]) -> dict[int, Replacement]:
    """The edits that drop each pool with a name that only `owners` read."""
    edits: dict[int, Replacement] = {}
    for number, node in enumerate(numbered.nodes):
        match node:
            case ast.With(items=[ast.withitem(optional_vars=ast.Name() as target)], body=body):
                left: Replacement = body
            case ast.Assign(targets=[ast.Name() as target]):
                left = None
            case _:
                continue
        uses = readings(scope_of(numbered, node), target)
        if uses and all(numbered.number(use) in owners for use in uses):
            edits[number] = left
    return edits


def _without_waits(numbered: NumberedTree) -> dict[int, Replacement]:
    """The edits that put what is waited for in place of the waiting."""
    waits: dict[int, Replacement] = {}
    for number, node in enumerate(numbered.nodes):
        match node:
            case ast.Call(func=ast.Attribute(attr=attr, value=value), args=[]) if attr in _WAITS:
                waits[number] = value
    return waits


def registered(numbered: NumberedTree) -> Iterator[Edits]:
    """For each definition that a decorator registers under a text: its name wherever that text is looked up.

    ``MODELS.build("small", 3)`` becomes ``Small(3)``; ``MODELS["small"]`` and ``MODELS.get("small")(3)`` become the
    class and its call. The text does not show which of these a call is, so both are proposed.
    """
    for node in numbered.tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            for key in registry_keys(node):
                for makes in (True, False):
                    edits = _looked_up(numbered, node, key, makes)
                    if edits:
                        yield edits | dict.fromkeys(map(numbered.number, node.decorator_list))
                        yield edits


def _looked_up(
    numbered: NumberedTree, definition: ast.FunctionDef | ast.ClassDef, key: str, makes: bool
) -> dict[int, Replacement]:
    """The edits for each place with `key`; `makes`: a call passes its other arguments on."""
    name = ast.Name(definition.name, ast.Load())
    edits: dict[int, Replacement] = {}
    for number, node in enumerate(numbered.nodes):
        match node:
            case ast.Subscript(slice=ast.Constant(value=text), ctx=ast.Load()) if text == key:
                edits[number] = name
            case ast.Call(args=[ast.Constant(value=text), *rest]) if text == key and not _decorates(numbered, node):
                edits[number] = ast.Call(name, rest, node.keywords) if makes else name
    return edits


def _decorates(numbered: NumberedTree, call: ast.Call) -> bool:
    above = numbered.parent(call)
    return isinstance(above, ast.FunctionDef | ast.ClassDef) and call in above.decorator_list


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
