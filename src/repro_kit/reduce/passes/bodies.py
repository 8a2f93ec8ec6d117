"""Less of higher-order operators: their bodies in their place, or less of what is in the bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from repro_kit.program import Program
from repro_kit.program.edits import Rewrite
from repro_kit.program.hops import (
    alike,
    all_inlined,
    bypassed,
    calls,
    inlinings,
    without_operand,
    without_result,
)
from repro_kit.reduce.adaptive import sweep
from repro_kit.reduce.search import Proposal, Search


def inline(search: Search) -> None:
    """The statements of a body in place of the operator that calls it: of all, else of one after the other."""
    if search.program.bodies and not _go_on(
        search, [all_inlined(search.program), all_inlined(search.program, last=True)]
    ):
        _repeat(search, lambda program: (inlining for call in calls(program) for inlining in inlinings(program, call)))


def same_branches(search: Search) -> None:
    """One body in the place of all that an operator chooses from."""
    _repeat(search, lambda program: (it for call in calls(program) for it in alike(program, call)))


def inside(search: Search) -> None:
    """Within bodies, let readers of a value read one that it is made of."""
    steps = len(search.history)
    for body in [it.name for it in search.program.bodies]:
        sweep(search, _items(search.program, body), partial(_bypass, body))
    if len(search.history) > steps:
        search.rebase()


def _items(program: Program, body: str) -> list[tuple[str, str]]:
    """(value, what it is made of) within a body, from its end, first operands first."""
    (function,) = (it for it in program.bodies if it.name == body)
    local = {*function.params, *(statement.target for statement in function.statements)}
    first: list[tuple[str, str]] = []
    further: list[tuple[str, str]] = []
    for it in reversed(function.statements):
        found = [(it.target, name) for name in it.reads if it.target is not None and name in local]
        first += found[:1]
        further += found[1:]
    return [*first, *further]


def _bypass(body: str, items: Sequence[tuple[str, str]]) -> Proposal:
    names: dict[str, str] = {}
    for value, operand in items:
        names.setdefault(value, operand)
    return [Rewrite(partial(bypassed, body=body, names=names))]


def operands(search: Search) -> None:
    """Fewer operands and results of the calls of bodies."""
    _repeat(search, _lesser)


def _lesser(program: Program) -> Iterator[Program | None]:
    for call in calls(program):
        results = {body.name: len(body.returns.reads) for body in program.bodies}
        most = max(results[name] for name in call.bodies)
        for at in range(most):
            yield without_result(program, call, at)
        for at in range(most):
            yield from (without_result(program, call, at, other) for other in range(most) if other != at)
        for at in range(len(call.operands())):
            yield without_operand(program, call, at)


def _repeat(search: Search, smaller: Callable[[Program], Iterable[Program | None]]) -> None:
    while search.program.bodies and _go_on(search, smaller(search.program)):
        pass


def _go_on(search: Search, programs: Iterable[Program | None]) -> bool:
    """Whether one of `programs` holds; the search goes on from it."""
    won = search.first(
        (None if program is None else [Rewrite(partial(_become, program))] for program in programs), alike=True
    )
    if won is not None:
        search.rebase()
    return won is not None


def _become(program: Program, _: Program) -> Program:
    return program
