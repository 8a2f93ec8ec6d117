"""Smaller shapes: each size everywhere at once, first judged with fake tensors."""

from __future__ import annotations

from collections.abc import Iterator

from repro_kit.program.edits import resize
from repro_kit.program.resize import numbers_in, sizes_of
from repro_kit.reduce.search import Proposal, Search


def shapes(search: Search) -> None:
    """Make all sizes 1 or 2, then each one 1, 2, half or one less, together with its multiples.

    Where one less will do and half will not, the least that does is searched for between. Only when no values are
    stored: those have the sizes they have.
    """
    if search.program.stored:
        return
    steps = len(search.history)
    search.first(_all_at_once(search), fake=True)
    for size in sizes_of(search.program):
        tries = _tries(search, size)
        won = search.first((it for new in tries for it in _one(search, size, new)), fake=True)
        if won is not None and size > 3 and tries[won // 2] == size - 1:
            _least(search, size // 2, size - 1)
    if len(search.history) > steps:
        search.rebase()


def _all_at_once(search: Search) -> Iterator[Proposal]:
    sizes = sizes_of(search.program)
    for new in (1, 2):
        yield from _both(tuple((size, new) for size in sizes if size > new))


def _tries(search: Search, size: int) -> list[int]:
    # What runs out of memory is not brought to the very edge of it, which is elsewhere on another machine.
    least = () if search.program.recipe.memory else (size - 1,)
    return [new for new in dict.fromkeys((1, 2, size // 2, *least)) if new < size]


def _one(search: Search, size: int, new: int) -> Iterator[Proposal]:
    factors = [it // size for it in numbers_in(search.program) if it > 0 and it % size == 0]
    yield from _both(tuple((size * factor, new * factor) for factor in sorted(factors)))


def _least(search: Search, low: int, high: int) -> None:
    """The least size above `low`, which is too small, that does as `high` does, by bisection."""
    while high - low > 1:
        middle = (low + high) // 2
        if search.first(_one(search, high, middle), fake=True) is None:
            low = middle
        else:
            high = middle


def _both(sizes: tuple[tuple[int, int], ...]) -> Iterator[Proposal]:
    """In the code as well, and in the inputs alone: a number in the code may mean something else."""
    if sizes:
        yield [resize(dict(sizes), code=True)]
        yield [resize(dict(sizes), code=False)]
