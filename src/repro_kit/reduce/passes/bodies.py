"""Passes over higher-order operators and transforms: inline bodies, make bodies smaller, and leave levels out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from repro_kit.program import Program
from repro_kit.program.hops import alike, all_inlined, bypassed, calls, inlinings, without_operand, without_result
from repro_kit.program.levels import without_levels
from repro_kit.program.program_edits import Rewrite
from repro_kit.reduce.adaptive import sweep
from repro_kit.reduce.search_state import Proposal, Search


def inline(search: Search) -> None:
    """Inline the bodies of all higher-order operators; if that does not fail alike, of one operator at a time."""
    if search.program.bodies and not _go_on(
        search, [all_inlined(search.program), all_inlined(search.program, last=True)]
    ):
        _repeat(search, lambda program: (inlining for call in calls(program) for inlining in inlinings(program, call)))


def levels(search: Search) -> None:
    """Compute without the levels of torch.func."""
    _go_on(search, [without_levels(search.program)])


def same_branches(search: Search) -> None:
    """Use one body for all branches of an operator."""
    _repeat(search, lambda program: (variant for call in calls(program) for variant in alike(program, call)))


def inside(search: Search) -> None:
    """Within bodies, replace a value by one of its operands."""
    steps = len(search.history)
    for body in [function.name for function in search.program.bodies]:
        sweep(search, _items(search.program, body), partial(_bypass, body))
    if len(search.history) > steps:
        search.rebase()


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
    return [Rewrite(partial(bypassed, body=body, names=names))]


def operands(search: Search) -> None:
    """Remove operands and results from the calls of bodies."""
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
    """Whether one of `programs` was accepted. The search then continues from it."""
    won = search.first(
        (None if program is None else [Rewrite(partial(_become, program))] for program in programs), equivalent=True
    )
    if won is not None:
        search.rebase()
    return won is not None


def _become(program: Program, _: Program) -> Program:
    return program
