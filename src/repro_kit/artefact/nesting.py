"""Write calls within calls, as people do: ``torch.sum(torch.relu(x))`` needs no name for the result of ``relu``."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from repro_kit.artefact.public_forms import is_border
from repro_kit.graph.program import Function, Program, Statement, canonical

_WIDTH = 76  # columns, without the indent of a function
_DEPTH = 3  # calls and operators within each other
_WRITES = re.compile(r"\.[a-z]\w*[a-z0-9]_(?:\.\w+)?\(|\bout=|_foreach_|^\w+_\(")
#: What has variables of its own, and is not evaluated where it stands, or more than once.
_SCOPES = (ast.Lambda, ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp)
_OPERATIONS = (ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript)


def nested(program: Program) -> Program:
    """`program` without names for values that the next statement alone reads, and without bodies of one expression.

    The order in which the operators run stays. What writes to a value keeps a line of its own.
    """
    return _without_short_bodies(program.mapped(_nested))


def _nested(function: Function) -> Function:
    times = Counter(name for one in (*function.statements, function.returns) for name in _names(one))
    done: list[Statement] = []
    for statement in function.statements:
        done.append(_with_values(statement, done, times))
    returns = _with_values(function.returns, done, times)
    return function.with_(statements=tuple(done), returns=returns)


def _with_values(reader: Statement, done: list[Statement], times: Counter[str]) -> Statement:
    """`reader` with the values of the last statements of `done` in the place of their names; they leave `done`."""
    names = [] if _is_apart(reader) else list(_read(reader.node, within=False))
    end = len(names)
    while done and done[-1].target in names[:end] and times[done[-1].target or ""] == 1 and not _is_apart(done[-1]):
        value = done[-1]
        whole = _put(reader, value)
        if len(whole.line) > _WIDTH or _depth(whole.node) > _DEPTH:
            break
        end, reader = names.index(value.target or ""), whole
        done.pop()
    return reader


def _is_apart(statement: Statement) -> bool:
    """Whether a statement needs a line of its own: it is no expression, writes, or opens or closes a region."""
    return statement.expression is None or is_border(statement) or bool(_WRITES.search(statement.text))


def _names(statement: Statement) -> list[str]:
    """The names in a statement."""
    return list(_read(statement.node))


def _read(node: ast.AST, *, within: bool = True) -> Iterator[str]:
    """The names in the order in which Python reads them; those in lambdas too, if `within`."""
    if isinstance(node, ast.Name):
        yield node.id
    for child in ast.iter_child_nodes(node):
        if within or not isinstance(child, _SCOPES):
            yield from _read(child, within=within)


def _depth(node: ast.AST) -> int:
    return isinstance(node, _OPERATIONS) + max(map(_depth, ast.iter_child_nodes(node)), default=0)


def _put(reader: Statement, value: Statement) -> Statement:
    assert value.target is not None and value.expression is not None
    return canonical(reader.target, _Values({value.target: value.expression}).visit(ast.parse(reader.text).body[0]))


class _Values(ast.NodeTransformer):
    """Writes expressions in place of names, except in lambdas."""

    def __init__(self, values: dict[str, ast.expr]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.values.get(node.id, node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        return node


def _without_short_bodies(program: Program) -> Program:
    """`program` with the one expression of a body in the lambda that calls the body, if nothing else does."""
    calls = Counter(name for function in program.functions() for one in _all(function) for name in _names(one))
    short = {
        body.name: body
        for body in program.bodies
        if not body.statements and not body.decorators and calls[body.name] == 1 and not _has_scope(body.returns)
    }
    functions = {function.name: _with_bodies(function, short) for function in program.functions()}
    left = {name for function in functions.values() for one in _all(function) for name in one.reads}
    kept = tuple(functions[body.name] for body in program.bodies if body.name not in short or body.name in left)
    return replace(program, graph=functions[program.graph.name], bodies=kept)


def _has_scope(statement: Statement) -> bool:
    return any(isinstance(node, _SCOPES) for node in ast.walk(statement.node))


def _all(function: Function) -> tuple[Statement, ...]:
    return (*function.statements, function.returns)


def _with_bodies(function: Function, short: dict[str, Function]) -> Function:
    def written(statement: Statement) -> Statement:
        if statement.expression is None or short.keys().isdisjoint(statement.reads):
            return statement
        whole = canonical(statement.target, _Bodies(short).visit(ast.parse(statement.text).body[0]))
        return whole if len(whole.line) <= _WIDTH else statement

    return function.mapped(written).with_(returns=written(function.returns))


class _Bodies(ast.NodeTransformer):
    """Writes the expression of a body in place of its call, where a lambda does nothing else."""

    def __init__(self, short: dict[str, Function]) -> None:
        self.short = short

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        match node.body:
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in self.short:
                body = self.short[name]
                own = {argument.arg for argument in node.args.args}
                if len(arguments) == len(body.params) and all(isinstance(each, ast.Name) for each in arguments):
                    free = set(_names(body.returns)) - set(body.params)
                    if own.isdisjoint(free):
                        values = dict(zip(body.params, arguments, strict=True))
                        node.body = _Values(values).visit(ast.parse(body.returns.text, mode="eval").body)
        return node
