"""The calls of a script that compile: what they ask for, a backend that does less, and a comparison with eager."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from repro_kit.script.tree import Edits, NumberedTree, Script

#: Arguments that belong to Inductor; with another backend they mean nothing.
_OF_INDUCTOR = ("mode", "options")
_DEFAULTS: dict[str, object] = {"backend": "inductor", "mode": None, "dynamic": None, "fullgraph": False}


def settings(program: Script) -> dict[str, Any]:
    """The backend, mode, dynamic and fullgraph of the first call that compiles, without those that are no literals."""
    call = next(_calls(program.tree), None)
    if call is None:
        return {}
    given = {keyword.arg: keyword.value for keyword in call.keywords} if isinstance(call, ast.Call) else {}
    literal = {name: value.value for name, value in given.items() if name and isinstance(value, ast.Constant)}
    return {
        name: literal.get(name, default) for name, default in _DEFAULTS.items() if name in literal or name not in given
    }


def with_backend(program: Script, backend: str) -> Script | None:
    """The program with `backend` in every call that compiles; None if there is none, or nothing changes.

    Where `torch.compile` is a value (``wrap = torch.compile if fast else same``), the call may be anywhere: the value
    becomes a `functools.partial`.
    """
    tree = ast.parse(program.text)
    calls = list(_calls(tree))
    values = list(_values(tree, calls))
    _WithBackend(list(map(id, calls)), list(map(id, values)), backend).visit(tree)
    if values:
        future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
        tree.body.insert(tree.body.index(future[-1]) + 1 if future else 0, ast.Import([ast.alias("functools")]))
    form = Script.of(tree)
    return None if form == program else form


def left_to_eager(numbered: NumberedTree) -> list[Edits]:
    """For each call that compiles, or that may compile by another name: the edit that leaves its function to eager."""
    edits = (_without(numbered, call) for call in [*_calls(numbered.tree), *_calls_by_other_names(numbered.tree)])
    return [edit for edit in edits if edit]


def _without(numbered: NumberedTree, call: ast.expr) -> Edits:
    above = numbered.parent(call)
    match above:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():  # a decorator
            return {numbered.number(call): None}
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="compile"))):  # module.compile()
            return {numbered.number(above): None}
    match call:
        case ast.Call(args=[compiled, *_]) if ast.unparse(compiled) not in _compilers(numbered.tree):
            return {numbered.number(call): compiled}
    match above:
        case ast.Call(func=made, args=[compiled, *_]) if made is call:  # torch.compile(backend=…)(function)
            return {numbered.number(above): compiled}
    return {}


def _calls(tree: ast.Module) -> Iterator[ast.expr]:
    """Calls of `torch.compile`, of a partial of it and of a module's `compile`, and bare decorators."""
    compilers = _compilers(tree)
    others = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name != "torch"
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="compile")) if ast.unparse(owner) not in others:
                yield node
            case ast.Call(func=called) if ast.unparse(called) in compilers:
                yield node
            case ast.Call(func=called, args=[first, *_]) if is_partial(called) and ast.unparse(first) in compilers:
                yield node
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield from (name for name in node.decorator_list if ast.unparse(name) in compilers)


def is_partial(called: ast.expr) -> bool:
    """Whether the name that is called is `functools.partial`'s."""
    return ast.unparse(called).rpartition(".")[2] == "partial"


def _values(tree: ast.Module, calls: list[ast.expr]) -> Iterator[ast.expr]:
    """References to `torch.compile` that no call in `calls` makes or passes on."""
    compilers = _compilers(tree)
    known = [*calls, *(part for call in calls if isinstance(call, ast.Call) for part in (call.func, *call.args[:1]))]
    for node in ast.walk(tree):
        is_read = isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load)
        if is_read and node not in known and ast.unparse(node) in compilers:
            assert isinstance(node, ast.expr)
            yield node


def _calls_by_other_names(tree: ast.Module) -> Iterator[ast.expr]:
    """Calls and bare decorators of what may hold `torch.compile`."""
    others = _other_names(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=called) if ast.unparse(called) in others:
                yield node
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield from (name for name in node.decorator_list if ast.unparse(name) in others)


def _other_names(tree: ast.Module) -> set[str]:
    """Variables, attributes and parameters that may hold `torch.compile`, whatever the scope: a guess."""
    given = [*_assigned(tree), *_passed(tree)]
    found: set[str] = set()
    known = _compilers(tree)
    while True:
        new = {name for name, value in given if _may_be(value, known | found)} - found - known
        if not new:
            return found
        found |= new


def _may_be(value: ast.expr, names: set[str]) -> bool:
    match value:
        case ast.IfExp(body=first, orelse=second):
            return _may_be(first, names) or _may_be(second, names)
        case ast.Call(func=called, args=[first, *_]) if is_partial(called):
            return _may_be(first, names)
    return ast.unparse(value) in names


def _assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                yield ast.unparse(target), value


def _passed(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """What calls of the script's own functions and classes give to which parameter."""
    functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                functions.setdefault(node.name, node)
            case ast.ClassDef(name=name, body=body):
                for made in body:
                    if isinstance(made, ast.FunctionDef) and made.name == "__init__":
                        functions[name] = made
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = functions.get(ast.unparse(node.func).rpartition(".")[2])
        if called is not None:
            parameters = [one.arg for one in (*called.args.posonlyargs, *called.args.args) if one.arg != "self"]
            yield from zip(parameters, node.args, strict=False)
            yield from ((keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg)


def _compilers(tree: ast.Module) -> set[str]:
    """What `torch.compile` is called in the script."""
    return {"torch.compile"} | {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "torch"
        for alias in node.names
        if alias.name == "compile"
    }


class _WithBackend(ast.NodeTransformer):
    """Writes a backend into the calls, and into the values that are called elsewhere; both are given by their ids."""

    def __init__(self, calls: list[int], values: list[int], backend: str) -> None:
        self.calls = calls
        self.values = values
        self.backend = backend

    def visit(self, node: ast.AST) -> ast.AST:
        """The node, with the backend if it is one of the calls or values."""
        compiles, is_value = id(node) in self.calls, id(node) in self.values
        self.generic_visit(node)
        if not compiles and not is_value:
            return node
        given = ast.keyword("backend", ast.Constant(self.backend))
        if is_value:
            assert isinstance(node, ast.expr)
            return ast.Call(ast.Attribute(ast.Name("functools", ast.Load()), "partial", ast.Load()), [node], [given])
        if not isinstance(node, ast.Call):
            assert isinstance(node, ast.expr)
            return ast.Call(node, [], [given])
        kept = [keyword for keyword in node.keywords if keyword.arg not in ("backend", *_OF_INDUCTOR)]
        return ast.Call(node.func, node.args, [*kept, given])


_NAMES = ("x", "y", "z", "w", "u", "v")


@dataclass(frozen=True)
class _Compiled:
    """What is compiled: `eager` is the function itself, `whole` the expression that compiles it, `name` its name."""

    eager: ast.expr
    whole: ast.expr
    name: str = ""  # "" where the expression is called at once


def self_checking(text: str) -> str | None:
    """`text` with one comparison in place of its only compiled call.

    None if there are several such calls, or none as a statement. Whether the comparison fails is for a run to say.
    """
    tree = ast.parse(text)
    compiled = list(_compiled(tree))
    if len(compiled) != 1:
        return None
    calls = [place for place in _statements(tree) if _is_call_of(place[0][place[1]], compiled[0])]
    if len(calls) != 1 or _uses(tree, compiled[0]) != 1:
        return None
    block, at = calls[0]
    taken = set(_names_at_top(tree))
    block[at : at + 1] = _comparison(block[at], compiled[0], taken)
    _without_definition(tree, compiled[0])
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _compiled(tree: ast.Module) -> Iterator[_Compiled]:
    named: set[ast.expr] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[eager]) as call) if _compiles(call):
                named.add(call)
                yield _Compiled(eager, call, name)
            case ast.FunctionDef(name=name, decorator_list=[decorator]) if _compiles(decorator):
                named.add(decorator)
                function = ast.Name(name, ast.Load())
                options = decorator.keywords if isinstance(decorator, ast.Call) else []
                yield _Compiled(function, ast.Call(_torch_compile(), [function], options), name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node not in named and _compiles(node) and node.args:
            yield _Compiled(node.args[0], node)


def _compiles(node: ast.expr) -> bool:
    function = node.func if isinstance(node, ast.Call) else node
    return ast.unparse(function) == "torch.compile"


def _torch_compile() -> ast.expr:
    return ast.parse("torch.compile", mode="eval").body


def _statements(tree: ast.Module) -> Iterator[tuple[list[ast.stmt], int]]:
    """Every statement, as its block and its place in the block."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and not isinstance(node, ast.ClassDef):
                yield from ((block, at) for at in range(len(block)))


def _is_call_of(statement: ast.stmt, compiled: _Compiled) -> bool:
    """Whether the statement is one call of the compiled function, by position."""
    value = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
    if not isinstance(value, ast.Call) or value.keywords or any(isinstance(arg, ast.Starred) for arg in value.args):
        return False
    if compiled.name:
        return isinstance(value.func, ast.Name) and value.func.id == compiled.name
    return value.func is compiled.whole


def _uses(tree: ast.Module, compiled: _Compiled) -> int:
    if not compiled.name:
        return 1
    return sum(isinstance(node, ast.Name) and node.id == compiled.name for node in _loads(tree))


def _loads(tree: ast.AST) -> Iterator[ast.Name]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))


def _comparison(statement: ast.stmt, compiled: _Compiled, taken: set[str]) -> list[ast.stmt]:
    """The statements in place of the call: the arguments, eager's results, and one comparison."""
    assert isinstance(statement, ast.Expr | ast.Assign) and isinstance(statement.value, ast.Call)
    made: list[ast.stmt] = []

    def named(value: ast.expr, name: str = "") -> ast.expr:
        if isinstance(value, ast.Name | ast.Constant | ast.Attribute):
            return value
        name = name if name and name not in taken else next(free for free in _free(taken))
        taken.add(name)
        made.append(ast.Assign([ast.Name(name, ast.Store())], value, lineno=0))
        return ast.Name(name, ast.Load())

    simple = isinstance(compiled.eager, ast.Name | ast.Attribute) or not compiled.name
    eager = compiled.eager if simple else ast.Name(compiled.name, ast.Load())
    eager = named(eager, "f" if isinstance(compiled.eager, ast.Lambda) else "model")
    options = compiled.whole.keywords if isinstance(compiled.whole, ast.Call) else []
    whole = ast.Call(_torch_compile(), [eager], options)
    arguments = [named(argument) for argument in statement.value.args]
    expected = ast.Assign([ast.Name("expected", ast.Store())], ast.Call(eager, arguments, []), lineno=0)
    close = ast.parse("torch.testing.assert_close", mode="eval").body
    call = ast.Call(close, [ast.Call(whole, arguments, []), ast.Name("expected", ast.Load())], [])
    return [*made, expected, ast.Expr(call)]


def _free(taken: set[str]) -> Iterator[str]:
    yield from (name for name in _NAMES if name not in taken)
    yield from (f"x{number}" for number in range(len(taken) + 1) if f"x{number}" not in taken)


def _without_definition(tree: ast.Module, compiled: _Compiled) -> None:
    """Remove the decorator, or `torch.compile` from the assignment."""
    if not compiled.name:
        return
    for block, at in list(_statements(tree)):
        node = block[at] if at < len(block) else None
        if isinstance(node, ast.FunctionDef) and node.name == compiled.name:
            node.decorator_list = []
        elif isinstance(node, ast.Assign) and node.value is compiled.whole:
            if isinstance(compiled.eager, ast.Name | ast.Attribute):
                del block[at]
            else:
                node.value = compiled.eager


def _names_at_top(tree: ast.AST) -> Iterator[str]:
    """Names that are used outside of functions and classes, or defined there."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name):
            yield node.id
        if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            yield from _names_at_top(node)
