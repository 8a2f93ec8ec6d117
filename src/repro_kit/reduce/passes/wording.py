"""Plainer statements: arguments that the failure does not need, and public names of operators."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from repro_kit.program import Program, Statement, size
from repro_kit.program.arguments import fewer_arguments, public_forms, with_statements
from repro_kit.program.edits import Rewrite
from repro_kit.reduce.search import Search

_MOST = 24  # statements of a program of which every argument is worth a try


def arguments(search: Search) -> None:
    """Fewer and plainer arguments, one after the other."""
    if size(search.program) > _MOST:
        return
    steps = len(search.history)
    for name, at in _places(search.program):
        statement = _statement(search.program, name, at)
        while statement is not None:
            plainer = [
                _rewrite(name, {statement.line: fewer_argument}) for fewer_argument in fewer_arguments(statement)
            ]
            won = search.first(([it] for it in plainer), fake=True)
            statement = _statement(search.program, name, at) if won is not None else None
    if len(search.history) > steps:
        search.rebase()


def public_names(search: Search) -> None:
    """``torch.relu`` for ``torch.ops.aten.relu.default``: everywhere at once, else where the failure stays."""
    if size(search.program) > _MOST:
        return
    steps = len(search.history)
    found: dict[tuple[str, str], Statement] = {}
    for name, at in _places(search.program):
        statement = _statement(search.program, name, at)
        forms = [] if statement is None else list(public_forms(statement))
        if statement is None or not forms:
            continue
        programs = [with_statements(search.program, name, {statement.line: form}) for form in forms]
        valid = search.oracle.fake_valid(programs)
        known = next((it for it, fine in zip(forms, valid, strict=True) if fine is not False), None)
        if known is not None:
            found[name, statement.line] = known
    everywhere = [_rewrite(name, {line: it}) for (name, line), it in found.items()]
    if everywhere and search.first([everywhere], alike=True) is None and len(everywhere) > 1:
        for it in everywhere:
            search.first([[it]], alike=True)
    if len(search.history) > steps:
        search.rebase()


def _places(program: Program) -> list[tuple[str, int]]:
    return [(function.name, at) for function in program.functions() for at in range(len(function.statements))]


def _statement(program: Program, name: str, at: int) -> Statement | None:
    """The statement at a place, which may be gone since."""
    function = next((it for it in program.functions() if it.name == name), None)
    return function.statements[at] if function is not None and at < len(function.statements) else None


def _rewrite(name: str, new: Mapping[str, Statement]) -> Rewrite:
    return Rewrite(partial(with_statements, name=name, new=dict(new)))
