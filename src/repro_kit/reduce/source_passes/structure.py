"""Drop statements and parts of them, and take blocks out of their statements."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from repro_kit.reduce.adaptive import each, sweep
from repro_kit.reduce.source_search import Proposal, SourceSearch
from repro_kit.source.compile_calls import left_to_eager as left_to_eager_edits
from repro_kit.source.proposals import expressions, structure
from repro_kit.source.proposals import results as returned
from repro_kit.source.proposals.cut_off import cut_off
from repro_kit.source.slices import outside_slices as outside_slices_of
from repro_kit.source.tree import Edits


def recorded(search: SourceSearch) -> None:
    """Put plain values in place of what computes them, but not of the calls that fail, nor of what decides."""
    numbered = search.rebase()
    places = {
        number: edit
        for number, edit in expressions.recorded(numbered, search.values).items()
        if not structure.is_at(numbered, number, search.failing_lines, search.decisive)
    }
    passive = {number: edit for number, edit in places.items() if isinstance(numbered.nodes[number], ast.Attribute)}
    outside = {number: edit for number, edit in passive.items() if not structure.in_class(numbered, number)}
    search.first([places, passive, outside])


def results(search: SourceSearch) -> None:
    """Put what calls returned in their places, and drop what nothing else needs."""
    numbered = search.base  # on its lines
    places = {
        number: value
        for number, value in returned.results(numbered, search.values, search.failing_lines).items()
        if not structure.is_at(numbered, number, (), search.decisive)
    }

    def propose(numbers: Sequence[int]) -> Proposal:
        return returned.with_released(numbered, {**search.edits, **{number: places[number] for number in numbers}})

    sweep(search, list(places), propose)


def left_to_eager(search: SourceSearch) -> None:
    """Compile no more than the failure needs: what else is compiled costs its time in every later query."""
    _leave_to_eager(search, lambda edits: True)


def called_left_to_eager(search: SourceSearch) -> None:
    """The same, but each statement stays on its line: a function whose decorator compiles it is left as it is."""
    _leave_to_eager(search, lambda edits: None not in edits.values())


def _leave_to_eager(search: SourceSearch, may: Callable[[Edits], bool]) -> None:
    every = left_to_eager_edits(search.rebase())
    if len(every) > 1:
        sweep(search, list(filter(may, every)), _together)


def _together(some: Sequence[Edits]) -> Edits:
    return {number: edit for edits in some for number, edit in edits.items()}


def untyped(search: SourceSearch) -> None:
    """Drop the annotations of all functions."""
    search.first([dict.fromkeys(structure.type_hints(search.rebase()))])


def outside_slices(search: SourceSearch) -> None:
    """Drop at once the statements that the failure does not seem to depend on."""
    numbered = search.rebase()
    search.first(dict.fromkeys(numbers) for numbers in outside_slices_of(numbered, search.failing_lines))


def after_failure(search: SourceSearch) -> None:
    """Drop what comes after the failing statements, in all functions that the failure passed through or in some."""
    numbered = search.base  # on its lines
    cuts = cut_off(numbered, search.failing_lines)

    def propose(some: Sequence[Edits]) -> Proposal:
        return {**search.edits, **_together(some)}

    sweep(search, cuts, propose)


def unreachable(search: SourceSearch) -> None:
    """Drop the definitions that nothing mentions."""
    search.first([dict.fromkeys(structure.unreachable(search.rebase()))])


def unused(search: SourceSearch) -> None:
    """Drop what nothing reads, all at once: imports, assignments, and the statements that are only a value.

    An assignment may be needed all the same, for what its value does; then as many go as can.
    """
    numbered = search.rebase()
    idle = structure.unused(numbered)
    dead = [numbered.number(node) for node in structure.never_read(numbered.tree)]
    if search.first([dict.fromkeys([*idle, *dead])]) is None and dead:
        search.first([dict.fromkeys(idle)])
        sweep(search, dead, _without)


def drop(search: SourceSearch) -> None:
    """Drop statements, the outer ones first."""
    depth = 0
    while True:
        levels = list(structure.levels(search.rebase()))
        if depth >= len(levels):
            return
        sweep(search, levels[depth], _without, width=None if search.coarse else 1)
        depth += 1


def definitions(search: SourceSearch) -> None:
    """Drop single statements, also where code that never runs then reads a name that nothing binds."""
    search.bound = False
    drop(search)
    search.bound = True


def items(search: SourceSearch) -> None:
    """Drop arguments, bases, decorators, elements and annotations."""
    sweep(search, structure.items(search.rebase()), _without, width=None if search.coarse else 1)


def _without(numbers: Sequence[int]) -> Proposal:
    return dict.fromkeys(numbers)


def unwrap(search: SourceSearch) -> None:
    """Take one branch, unroll a loop once, drop a context manager."""
    each(search, structure.unwrapped(search.rebase(), search.items))


def simpler(search: SourceSearch) -> None:
    """Put an operand or a constant in place of an expression; what nothing reads any more goes at once."""
    while _simpler(search):
        unused(search)


def _simpler(search: SourceSearch) -> bool:
    """Whether the pass ended early, since it left an assignment that nothing reads."""
    before = len(structure.never_read(search.program.tree))
    for edits in expressions.simpler(search.rebase(), search.values):
        accepted = search.first(edits) is not None
        # A pass that begins again tries nothing twice, but in a thorough search.
        if accepted and not search.thorough and len(structure.never_read(search.program.tree)) > before:
            return True
    return False


def literals(search: SourceSearch) -> None:
    """Make sizes smaller and literals plainer."""
    each(search, expressions.sizes(search.rebase()))
    each(search, expressions.literals(search.rebase()))
