"""A suggestion: one concrete step, the reason, and how to apply it, if possible with a diff of the user's source."""

from __future__ import annotations

import ast
import difflib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, cast

from repro_kit.explain.context import Context
from repro_kit.probe.repro_probe.protocol.orders import Override
from repro_kit.recipe import assigned, qualified
from repro_kit.trace.places import is_users

_JOINED = ("TORCH_COMPILE_DYNAMIC_SOURCES", "TORCH_COMPILE_UNBACKED_SOURCES")  # lists, separated by commas


class Aim(StrEnum):
    """The number that a suggestion should lower."""

    GRAPH_BREAKS = "graph breaks"
    RECOMPILES = "recompiles"
    LIMIT_HITS = "frames that hit the recompile limit"
    FAILURES = "failed compiles"
    COMPILE_SECONDS = "compile seconds"


@dataclass(frozen=True)
class AppliedChange:
    """How to apply a suggestion to an unmodified script.

    `config` holds settings of torch (``dynamo.capture_scalar_outputs``). `functions` are added to settings that are
    sets of functions. `arguments` are added to every torch.compile.
    """

    env: dict[str, str] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    functions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)

    def joined(self, other: AppliedChange) -> AppliedChange:
        """Both changes in one; `other` wins where they contradict each other."""
        functions = {
            name: tuple(dict.fromkeys((*self.functions.get(name, ()), *other.functions.get(name, ()))))
            for name in {**self.functions, **other.functions}
        }
        return AppliedChange(
            _with_lists(self.env, other.env),
            {**self.config, **other.config},
            functions,
            {**self.arguments, **other.arguments},
        )

    def contradicts(self, other: AppliedChange) -> bool:
        """Whether both set one option to different values; lists of sources can be joined."""
        pairs = ((self.env, other.env), (self.config, other.config), (self.arguments, other.arguments))
        return any(
            ours[key] != theirs[key] for ours, theirs in pairs for key in {*ours} & {*theirs} if key not in _JOINED
        )

    def environment(self, own: Mapping[str, str]) -> dict[str, str]:
        """The variables to set; lists of sources are appended to the user's `own`."""
        kept = {name: own[name] for name in _JOINED if name in self.env and own.get(name)}
        return _with_lists(kept, self.env)

    def override(self) -> Override:
        """The changes that the probe is asked for."""
        return {"config": self.config, "functions": self.functions, **cast(Override, self.arguments)}

    def lines(self) -> list[str]:
        """The change as lines of shell and Python for the user."""
        lines = [f"export {name}={_quoted(value)}" for name, value in self.env.items()]
        lines += [assigned(name, value) for name, value in self.config.items()]
        lines += [
            f"{qualified(name)}.add({path.removeprefix('builtins.')})"
            for name, paths in self.functions.items()
            for path in paths
        ]
        if self.arguments:
            lines.append(
                f"torch.compile(…, {', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})"
            )
        return lines


@dataclass(frozen=True)
class SourceEdit:
    """A change of the user's source: the file and a diff."""

    file: str
    diff: str


@dataclass(frozen=True)
class Suggestion:
    """One step. `what` is an imperative sentence, `why` the reason; `section` names the insight.

    A suggestion with `change` can be tried from outside; one with only `edit` cannot.
    """

    what: str
    why: str
    section: str
    aim: Aim
    change: AppliedChange | None = None
    edit: SourceEdit | None = None
    place: str = ""  # file:line
    note: str = ""  # side effects
    untried: str = "needs an edit"  # why a suggestion without `change` is not tried
    weight: float = 0.0  # how many compiles it may save


def _quoted(value: str) -> str:
    """`value` quoted for a shell; in double quotes if that is easier to read."""
    return f'"{value}"' if "'" in value and not re.search(r'["$`\\\\!]', value) else shlex.quote(value)


def _with_lists(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    joined = {**first, **second}
    for name in _JOINED:
        if first.get(name) and second.get(name):
            parts = dict.fromkeys(part for text in (first[name], second[name]) for part in text.split(",") if part)
            joined[name] = ",".join(parts)
    return joined


def edit(context: Context, file: str, first: int, last: int, new: Sequence[str]) -> SourceEdit | None:
    """Replace lines `first` to `last` (from 1, inclusive) of `file` by `new`; None if it is not the user's."""
    lines = context.lines(file) if is_users(file) else ()
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
