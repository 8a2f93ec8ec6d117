"""Passes over higher-order operators and transforms: inline bodies, make bodies smaller, and leave levels out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from repro_kit.program import Program
from repro_kit.program.hops import alike, all_inlined, bypassed, calls, inlinings, without_operand, without_result
from repro_kit.program.levels import without_levels
from repro_kit.program.program_edits import rewrite
from repro_kit.reduce.adaptive import one_by_one, rebasing, sweep
from repro_kit.reduce.search_state import Proposal, Search


def inline(search: Search) -> None:
    """Inline the bodies of all higher-order operators; if that does not fail alike, of one operator at a time."""
    one_by_one(search, _inlined, equivalent=True)


def _inlined(search: Search) -> Iterator[Proposal]:
    program = search.program
    if program.bodies:
        yield from map(_becoming, (all_inlined(program), all_inlined(program, last=True)))
        yield from (_becoming(inlining) for call in calls(program) for inlining in inlinings(program, call))


def levels(search: Search) -> None:
    """Compute without the levels of torch.func."""
    one_by_one(search, lambda search: [_becoming(without_levels(search.program))], equivalent=True)


def same_branches(search: Search) -> None:
    """Use one body for all branches of an operator."""
    one_by_one(search, _alike, equivalent=True)


def _alike(search: Search) -> Iterator[Proposal]:
    return (_becoming(variant) for call in calls(search.program) for variant in alike(search.program, call))


@rebasing
def inside(search: Search) -> None:
    """Within bodies, replace a value by one of its operands."""
    for body in [function.name for function in search.program.bodies]:
        sweep(search, _items(search.program, body), partial(_bypass, body))


def _items(program: Program, body: str) -> list[tuple[str, str]]:
    """(value, operand) pairs within a body, last statement first; first operands before all others."""
    (function,) = (function for function in program.bodies if function.name == body)
    local = {*function.params, *(statement.target for statement in function.statements)}
    first: list[tuple[str, str]] = []
    further: list[tuple[str, str]] = []
    for statement in reversed(function.statements):
        pairs = [(statement.target, name) for name in statement.reads if statement.target is not None and name in local]
        first += pairs[:1]
        further += pairs[1:]
    return [*first, *further]


def _bypass(body: str, items: Sequence[tuple[str, str]]) -> Proposal:
    names: dict[str, str] = {}
    for value, operand in items:
        names.setdefault(value, operand)
    return rewrite(partial(bypassed, body=body, names=names))


def operands(search: Search) -> None:
    """Remove operands and results from the calls of bodies."""
    one_by_one(search, lambda search: map(_becoming, _lesser(search.program)), equivalent=True)


def _lesser(program: Program) -> Iterator[Program | None]:
    results = {body.name: len(body.returns.reads) for body in program.bodies}
    for call in calls(program):
        most = max(results[name] for name in call.bodies)
        for at in range(most):
            yield without_result(program, call, at)
        for at in range(most):
            yield from (without_result(program, call, at, other) for other in range(most) if other != at)
        for at in range(len(call.operands())):
            yield without_operand(program, call, at)


def _becoming(program: Program | None) -> Proposal:
    """The edit to `program`, whatever the program is now."""
    return None if program is None else rewrite(lambda _: program)
