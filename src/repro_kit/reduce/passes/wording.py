"""Make statements plain: fewer arguments, smaller numbers, and public names of operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from repro_kit.program import Program, Statement, size, spots
from repro_kit.program.plainer_forms import fewer_arguments, public_forms, with_statements
from repro_kit.program.program_edits import Rewrite
from repro_kit.reduce.passes.input_shapes import shrink
from repro_kit.reduce.search_state import Proposal, Search

_MOST = 24  # a program with at most so many statements has every argument tried
_FEW = 4  # and with so many, every number


def arguments(search: Search) -> None:
    """Drop arguments or make them plainer, one at a time."""
    if size(search.program) > _MOST:
        return
    steps = len(search.history)
    for name, at in _places(search.program):
        statement = _statement(search.program, name, at)
        while statement is not None:
            plainer = [
                _rewrite(name, {statement.line: fewer_argument}) for fewer_argument in fewer_arguments(statement)
            ]
            won = search.first(([edit] for edit in plainer), fake=True)
            statement = _statement(search.program, name, at) if won is not None else None
    if len(search.history) > steps:
        search.rebase()


def numbers(search: Search) -> None:
    """Make each number in statements and arguments smaller, one at a time."""
    if size(search.program) > _FEW:
        return
    steps = len(search.history)
    for at, spot in enumerate(list(spots.numbers(search.program))):
        if spot.value > 1:
            shrink(search, int(spot.value), partial(_another_number, at))
        elif spot.value not in (0, 1):
            search.first(_another_number(at, 0, 1), fake=True)
    if len(search.history) > steps:
        search.rebase()


def _another_number(at: int, _: int, new: int) -> Iterator[Proposal]:
    yield [Rewrite(partial(_with_number, at=at, value=new))]


def _with_number(program: Program, at: int, value: int) -> Program | None:
    found = list(spots.numbers(program))
    return found[at].put(value) if at < len(found) else None


def public_names(search: Search) -> None:
    """``torch.relu`` for ``torch.ops.aten.relu.default``: everywhere at once, else one statement at a time."""
    if size(search.program) > _MOST:
        return
    steps = len(search.history)
    public: dict[tuple[str, str], Statement] = {}
    for name, at in _places(search.program):
        statement = _statement(search.program, name, at)
        forms = [] if statement is None else list(public_forms(statement))
        if statement is None or not forms:
            continue
        programs = [with_statements(search.program, name, {statement.line: form}) for form in forms]
        valid = search.oracle.fake_valid(programs)
        form = next((candidate for candidate, fine in zip(forms, valid, strict=True) if fine is not False), None)
        if form is not None:
            public[name, statement.line] = form
    everywhere = [_rewrite(name, {line: new_form}) for (name, line), new_form in public.items()]
    if everywhere and search.first([everywhere], equivalent=True) is None and len(everywhere) > 1:
        for edit in everywhere:
            search.first([[edit]], equivalent=True)
    if len(search.history) > steps:
        search.rebase()


def _places(program: Program) -> list[tuple[str, int]]:
    return [(function.name, at) for function in program.functions() for at in range(len(function.statements))]


def _statement(program: Program, name: str, at: int) -> Statement | None:
    """The statement at index `at` of function `name`; None when it is gone."""
    function = next((candidate for candidate in program.functions() if candidate.name == name), None)
    return function.statements[at] if function is not None and at < len(function.statements) else None


def _rewrite(name: str, new: Mapping[str, Statement]) -> Rewrite:
    return Rewrite(partial(with_statements, name=name, new=dict(new)))
