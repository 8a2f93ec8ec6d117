"""The calls of a script that compile: what they ask for, and the same script with a backend that does less."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from repro_kit.source.tree import Edits, NumberedTree, SourceProgram

#: Arguments that belong to Inductor; with another backend they mean nothing.
_OF_INDUCTOR = ("mode", "options")
_DEFAULTS: dict[str, object] = {"backend": "inductor", "mode": None, "dynamic": None, "fullgraph": False}


def settings(program: SourceProgram) -> dict[str, Any]:
    """The backend, mode, dynamic and fullgraph of the first call that compiles, without those that are no literals."""
    call = next(_calls(program.tree), None)
    if call is None:
        return {}
    given = {keyword.arg: keyword.value for keyword in call.keywords} if isinstance(call, ast.Call) else {}
    literal = {name: value.value for name, value in given.items() if name and isinstance(value, ast.Constant)}
    return {
        name: literal.get(name, default) for name, default in _DEFAULTS.items() if name in literal or name not in given
    }


def with_backend(program: SourceProgram, backend: str) -> SourceProgram | None:
    """The program with `backend` in every call that compiles; None where there is none, or nothing changes."""
    tree = ast.parse(program.text)
    _WithBackend(list(map(id, _calls(tree))), backend).visit(tree)
    form = SourceProgram.of(tree)
    return None if form == program else form


def left_to_eager(numbered: NumberedTree) -> list[Edits]:
    """For each call that compiles: the edit that leaves to eager what the call compiles."""
    edits = (_without(numbered, call) for call in _calls(numbered.tree))
    return [edit for edit in edits if edit]


def _without(numbered: NumberedTree, call: ast.expr) -> Edits:
    above = numbered.parent(call)
    match above:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():  # a decorator
            return {numbered.number(call): None}
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="compile"))):  # module.compile()
            return {numbered.number(above): None}
        case ast.Call(func=made, args=[compiled, *_]) if made is call:  # torch.compile(backend=…)(function)
            return {numbered.number(above): compiled}
    match call:
        case ast.Call(args=[compiled, *_]) if ast.unparse(compiled) not in _compilers(numbered.tree):
            return {numbered.number(call): compiled}
    return {}


def _calls(tree: ast.Module) -> Iterator[ast.expr]:
    """Calls of `torch.compile` and of a module's `compile`, calls that pass `torch.compile` on, and bare decorators."""
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
            case ast.Call(func=called, args=passed) if {*map(ast.unparse, [called, *passed])} & compilers:
                yield node
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield from (name for name in node.decorator_list if ast.unparse(name) in compilers)


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
    """Writes a backend into the calls whose ids are given."""

    def __init__(self, calls: list[int], backend: str) -> None:
        self.calls = calls
        self.backend = backend

    def visit(self, node: ast.AST) -> ast.AST:
        """The node, with the backend where it is one of the calls."""
        compiles = id(node) in self.calls
        self.generic_visit(node)
        if not compiles:
            return node
        given = ast.keyword("backend", ast.Constant(self.backend))
        if not isinstance(node, ast.Call):
            assert isinstance(node, ast.expr)
            return ast.Call(node, [], [given])
        kept = [keyword for keyword in node.keywords if keyword.arg not in ("backend", *_OF_INDUCTOR)]
        return ast.Call(node.func, node.args, [*kept, given])
