"""Bodies of higher-order operators, levels of transforms and lists that belong together: inline or shorten them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from repro_kit.graph import Program
from repro_kit.graph.edits import rewrite
from repro_kit.graph.hops import alike, all_inlined, bypassed, calls, inlinings, without_operand, without_result
from repro_kit.graph.levels import lifted, unnested
from repro_kit.graph.search import Proposal, Search
from repro_kit.graph.simpler import lengths, shortened, without_levels
from repro_kit.reduce.proposing import one_by_one, rebasing, sweep


def inline(search: Search) -> None:
    """Inline the bodies of all higher-order operators; if that does not fail alike, of one operator at a time."""
    one_by_one(search, _inlined, equivalent=True)


def _inlined(search: Search) -> Iterator[Proposal]:
    program = search.program
    if program.bodies:
        yield from map(_becoming, (all_inlined(program), all_inlined(program, last=True)))
        yield from (_becoming(inlining) for call in calls(program) for inlining in inlinings(program, call))


def levels(search: Search) -> None:
    """Compute without the levels of torch.func; else write them as calls of torch.func, and leave out one by one."""
    one_by_one(search, _with_fewer_levels, equivalent=True)


def _with_fewer_levels(search: Search) -> Iterator[Proposal]:
    program = search.program
    yield from map(_becoming, (without_levels(program), lifted(program)))
    yield from map(_becoming, unnested(program))


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


_MOST = 16  # parts of a list that are dropped one at a time


@rebasing
def lists(search: Search) -> None:
    """Keep one element of the lists, else as few as halving finds, with all that is made of these elements."""
    for length in lengths(search.program):
        _shorten(search, length)


def _shorten(search: Search, length: int) -> None:
    if _keep(search, length, [(0,), (length - 1,)]):
        return
    width = length // 2
    while width and length // width <= _MOST:
        dropped = [range(at, min(at + width, length)) for at in range(0, length, width)]
        kept = [tuple(at for at in range(length) if at not in run) for run in dropped]
        won = _keep(search, length, [each for each in kept if each])
        if won:
            length = len(won)
        width = min(width, length - 1) if won else width // 2


def _keep(search: Search, length: int, choices: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The first of `choices`, each the elements that stay, that fails alike; empty when none does."""
    won = search.first((rewrite(partial(shortened, length=length, kept=kept)) for kept in choices), fake=True)
    return () if won is None else choices[won]
