"""Let a script that shows nothing itself compare its compiled call with eager, as a person would write it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

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
