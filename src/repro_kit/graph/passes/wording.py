"""Make statements plain: fewer arguments, smaller numbers, and public names of operators."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from repro_kit.graph import Program, Statement, size, sizes
from repro_kit.graph.edits import Edit, rewrite
from repro_kit.graph.passes.inputs import shrink
from repro_kit.graph.search import Proposal, Search
from repro_kit.graph.simpler import fewer_arguments, public_forms, with_statements
from repro_kit.reduce.proposing import each, rebasing

_MOST = 24  # a program with at most so many statements has every argument tried
_FEW = 4  # and with so many, every number


@rebasing
def arguments(search: Search) -> None:
    """Drop arguments or make them plainer, one at a time."""
    if size(search.program) > _MOST:
        return
    for name, at in _places(search.program):
        statement = _statement(search.program, name, at)
        while statement is not None:
            plainer = [_put(name, statement, fewer) for fewer in fewer_arguments(statement)]
            won = search.first(plainer, fake=True)
            statement = _statement(search.program, name, at) if won is not None else None


@rebasing
def numbers(search: Search) -> None:
    """Make each number in statements and arguments smaller, one at a time."""
    if size(search.program) > _FEW:
        return
    for at, spot in enumerate(list(sizes.numbers(search.program))):
        if spot.value > 1:
            shrink(search, int(spot.value), partial(_another_number, at))
        elif spot.value not in (0, 1):
            search.first(_another_number(at, 0, 1), fake=True)


def _another_number(at: int, _: int, new: int) -> Iterator[Proposal]:
    yield rewrite(partial(_with_number, at=at, value=new))


def _with_number(program: Program, at: int, value: int) -> Program | None:
    found = list(sizes.numbers(program))
    return found[at].put(value) if at < len(found) else None


@rebasing
def public_names(search: Search) -> None:
    """``torch.relu`` for ``torch.ops.aten.relu.default``: everywhere at once, else one statement at a time."""
    if size(search.program) > _MOST:
        return
    everywhere: list[Edit] = []
    for name, at in _places(search.program):
        statement = _statement(search.program, name, at)
        forms = [] if statement is None else list(public_forms(statement))
        if statement is None or not forms:
            continue
        programs = [with_statements(search.program, name, {statement.line: form}) for form in forms]
        valid = search.oracle.fake_valid(programs)
        form = next((candidate for candidate, fine in zip(forms, valid, strict=True) if fine is not False), None)
        if form is not None:
            everywhere.append(_put(name, statement, form))
    if everywhere and search.first([sum(everywhere, Edit())], equivalent=True) is None and len(everywhere) > 1:
        each(search, ([edit] for edit in everywhere), equivalent=True)


def _places(program: Program) -> list[tuple[str, int]]:
    return [(function.name, at) for function in program.functions() for at in range(len(function.statements))]


def _statement(program: Program, name: str, at: int) -> Statement | None:
    """The statement at index `at` of function `name`; None when it is gone."""
    function = next((candidate for candidate in program.functions() if candidate.name == name), None)
    return function.statements[at] if function is not None and at < len(function.statements) else None


def _put(name: str, old: Statement, new: Statement) -> Edit:
    """The edit that puts `new` in the place of `old` in the function `name`."""
    return rewrite(partial(with_statements, name=name, new={old.line: new}))
