"""The number that decides: how far one number or one size of the result can change until it passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from repro_kit.model.run_outcome import RunOutcome
from repro_kit.program import Program, TensorInput, render
from repro_kit.program.resize import resized, sizes_of
from repro_kit.program.spots import Number, Spot, numbers, sizes
from repro_kit.reduce.candidate_search import key_of
from repro_kit.reduce.flaky import RUNS_BEFORE_DETERMINISTIC
from repro_kit.reduce.result import DecidingNumber
from repro_kit.reduce.search_state import Search

_MOST_TRIES = 10  # queries, answers that are known already not counted
_LOOKING = 7  # of them before some number passes
_LARGE = 4  # a number above it may be far from one that passes
_RANDOM = ("rand", "randn", "randint")  # kinds of data that depend on the seed


@dataclass(frozen=True)
class _Try:
    """Another value in one place of the result."""

    spot: Spot
    value: Number
    program: Program
    key: str


def deciding_number(search: Search) -> Iterator[tuple[DecidingNumber, Program]]:
    """The number that decides and the variant that passes, more closely each time; nothing if none is found."""
    last = search.queries + _MOST_TRIES
    spots = [*numbers(search.program), *sizes(search.program), *_everywhere(search.program)]
    for values in (_next, _far):
        tries = _plausible(search, [_try(spot, value) for value, spot in _in_turns(spots, values)])
        passing = _first_passing(search, tries, last - _MOST_TRIES + _LOOKING)
        if passing is not None:
            yield from _narrowed(search, passing, last)
            return


def passes_with_other_values(search: Search, program: Program) -> bool:
    """Whether the program passes with other seeds too: a wrong result may need values that one seed does not give.

    That is asked of a variant with other sizes or dtypes, which computes the same and has other random numbers.
    """
    tensors = [line for line in program.inputs if isinstance(line, TensorInput)]
    if not program.recipe.check or not any(line.data.kind in _RANDOM for line in tensors):
        return True
    seeds = range(program.recipe.seed + 1, program.recipe.seed + RUNS_BEFORE_DETERMINISTIC)
    others = [program.with_(recipe=program.recipe.with_(seed=seed)) for seed in seeds]
    answers = search.ask(others, [_key(other) for other in others])
    return all(answer.outcome is RunOutcome.PASSES for answer in answers)


def _everywhere(program: Program) -> Iterator[Spot]:
    """Each size above 1, in all places at once."""
    for value in sizes_of(program):
        yield Spot(f"every size {value}", value, partial(_resized, program, value), is_size=True)


def _resized(program: Program, size: int, value: Number) -> Program:
    return resized(program, {size: int(value)}, code=True)


def _next(spot: Spot) -> list[Number]:
    """The next smaller and larger number; for one that is not whole, 1 and 0."""
    if isinstance(spot.value, float):
        return [1, 0]
    least = 1 if spot.is_size else 0
    return [value for value in (spot.value - 1, spot.value + 1) if value >= least]


def _far(spot: Spot) -> list[Number]:
    if isinstance(spot.value, float):
        return [spot.value / 2, spot.value * 2]
    below = [1, 100, spot.value // 2] if spot.value > _LARGE else []
    return [value for value in below if value not in _next(spot)]


def _in_turns(spots: Sequence[Spot], values: Callable[[Spot], list[Number]]) -> Iterator[tuple[Number, Spot]]:
    """The first value of every spot, then the second of every one, and so on."""
    each = [values(spot) for spot in spots]
    for at in range(max(map(len, each), default=0)):
        yield from ((others[at], spot) for others, spot in zip(each, spots, strict=True) if at < len(others))


def _try(spot: Spot, value: Number) -> _Try:
    program = spot.put(value)
    return _Try(spot, value, program, _key(program))


def _key(program: Program) -> str:
    return key_of(render(program))


def _plausible(search: Search, tries: Sequence[_Try]) -> list[_Try]:
    """Those that were judged already, the nearest first, then those that fake tensors do not show to be invalid."""
    judged = [each for each in tries if not search.is_new(each.key)]
    judged.sort(key=lambda each: abs(each.value - each.spot.value))
    fresh = [each for each in tries if search.is_new(each.key)]
    valid = search.oracle.fake_valid([each.program for each in fresh]) if fresh else ()
    return [*judged, *(each for each, fine in zip(fresh, valid, strict=True) if fine is not False)]


def _first_passing(search: Search, tries: Sequence[_Try], last: int) -> _Try | None:
    for each in tries:
        if search.is_new(each.key) and search.queries >= last:
            return None
        passes = _outcome(search, each) is RunOutcome.PASSES
        if passes and passes_with_other_values(search, each.program):
            return each
    return None


def _outcome(search: Search, each: _Try) -> RunOutcome:
    (answer,) = search.ask([each.program], [each.key])
    return answer.outcome


def _narrowed(search: Search, passing: _Try, last: int) -> Iterator[tuple[DecidingNumber, Program]]:
    """Bisect between the number that passes and the one of the result."""
    spot = passing.spot
    found = DecidingNumber(spot.what, spot.value, passing.value)
    yield found, passing.program
    while search.queries < last and isinstance(found.fails, int) and abs(found.fails - found.passes) > 1:
        between = _try(spot, _middle(found))
        outcome = _outcome(search, between)
        if outcome is RunOutcome.PASSES:
            found, passing = replace(found, passes=between.value), between
        elif outcome is RunOutcome.FAILS_ALIKE:
            found = replace(found, fails=between.value)
        else:
            return
        yield found, passing.program
    beyond = _try(spot, 2 * found.fails - found.passes)
    if search.queries < last and abs(found.fails - found.passes) == 1 and beyond.value >= int(spot.is_size):
        yield replace(found, beyond=_outcome(search, beyond) is RunOutcome.FAILS_ALIKE), passing.program


def _middle(found: DecidingNumber) -> int:
    """A number between, in the middle of their sizes where these differ much."""
    low, high = sorted((int(found.passes), int(found.fails)))
    if low > 0 and high > _LARGE * low:
        return math.isqrt(low * high)
    return (low + high) // 2
