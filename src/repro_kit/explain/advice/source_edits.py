"""Changes of the user's source code, as diffs."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from repro_kit.explain.context import Context
from repro_kit.explain.suggestion import SourceEdit


def edit(context: Context, file: str, first: int, last: int, new: Sequence[str]) -> SourceEdit | None:
    """Replace lines `first` to `last` (from 1, inclusive) of `file` by `new`; None if the file cannot be read."""
    lines = context.lines(file)
    if not 0 < first <= last <= len(lines):
        return None
    changed = [*lines[: first - 1], *new, *lines[last:]]
    name = context.file(file)
    diff = difflib.unified_diff(lines, changed, name, name, n=2, lineterm="")
    return SourceEdit(name, "\n".join(diff))


def tree(context: Context, file: str) -> ast.Module | None:
    """The parsed user file; None if it is gone or not valid Python."""
    text = "\n".join(context.lines(file))
    try:
        return ast.parse(text) if text else None
    except (SyntaxError, ValueError):
        return None


def nodes_at(module: ast.Module, line: int) -> Iterator[ast.AST]:
    """The nodes that begin on `line`, outer ones first."""
    return (node for node in ast.walk(module) if getattr(node, "lineno", None) == line)


def indent(line: str) -> str:
    """The leading blanks of `line`."""
    return line[: len(line) - len(line.lstrip())]


_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


@dataclass(frozen=True)
class Branch:
    """An ``if`` that only chooses a value: ``target = body`` or ``target = other`` (or nothing) when `test` holds.

    `target` is None if both sides return.
    """

    first: int
    last: int
    test: str
    target: str | None
    body: str
    other: str | None


def branch_at(module: ast.Module, line: int) -> Branch | None:
    """The ``if`` at `line` if it only chooses a value; an ``elif`` cannot be replaced alone."""
    statement = next((node for node in nodes_at(module, line) if isinstance(node, ast.If)), None)
    if statement is None or not _is_boolean_tensor(statement.test):
        return None
    if len(statement.body) != 1 or len(statement.orelse) > 1 or _is_elif(module, statement):
        return None
    body_statement, else_statement = statement.body[0], statement.orelse[0] if statement.orelse else None
    last = statement.end_lineno or line
    test = ast.unparse(statement.test)
    match body_statement, else_statement:
        case ast.Return(value=ast.expr() as body), ast.Return(value=ast.expr() as other):
            return Branch(line, last, test, None, ast.unparse(body), ast.unparse(other))
        case ast.Assign(targets=[ast.Name(id=name)], value=body), None:
            return Branch(line, last, test, name, ast.unparse(body), None)
        case ast.Assign(targets=[ast.Name(id=name)], value=body), ast.Assign(targets=[ast.Name(id=again)], value=other):
            return Branch(line, last, test, name, ast.unparse(body), ast.unparse(other)) if name == again else None
        case _:
            return None


def _is_boolean_tensor(test: ast.expr) -> bool:
    """Whether a condition is one boolean tensor: ``not``, ``and`` and ``0 < x < 1`` make a Python bool of it."""
    if isinstance(test, ast.Call):
        return isinstance(test.func, ast.Attribute) and test.func.attr in ("any", "all")
    return isinstance(test, ast.Compare) and isinstance(test.ops[0], _ORDERS) and len(test.ops) == 1


def _is_elif(module: ast.Module, node: ast.If) -> bool:
    above = (outer for outer in ast.walk(module) if isinstance(outer, ast.If) and outer.orelse == [node])
    return any(outer.col_offset == node.col_offset for outer in above)


def without_branch(branch: Branch) -> str:
    """`branch` as one statement that Dynamo can trace."""
    if branch.other is None:
        return f"{branch.target} = torch.where({branch.test}, {branch.body}, {branch.target})"
    chosen = f"torch.cond({branch.test}, lambda: {branch.body}, lambda: {branch.other})"
    return f"return {chosen}" if branch.target is None else f"{branch.target} = {chosen}"
