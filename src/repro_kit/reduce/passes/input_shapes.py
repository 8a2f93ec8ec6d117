"""Make shapes smaller: each size in all places at once, checked with fake tensors first."""

from __future__ import annotations

from collections.abc import Iterator

from repro_kit.program.program_edits import resize
from repro_kit.program.resize import numbers_in, sizes_of
from repro_kit.reduce.search_state import Proposal, Search


def shapes(search: Search) -> None:
    """Make all sizes 1 or 2. Then make each size 1, 2, half or one less, and its multiples with it.

    Where one less works and half does not, a bisection finds the least size that works. Nothing is done while values
    are stored: their sizes are fixed.
    """
    if search.program.stored:
        return
    steps = len(search.history)
    search.first(_all_at_once(search), fake=True)
    for size in sizes_of(search.program):
        tries = _tries(search, size)
        won = search.first((proposal for new in tries for proposal in _one_size(search, size, new)), fake=True)
        if won is not None and size > 3 and tries[won // 2] == size - 1:
            _least(search, size // 2, size - 1)
    if len(search.history) > steps:
        search.rebase()


def _all_at_once(search: Search) -> Iterator[Proposal]:
    sizes = sizes_of(search.program)
    for new in (1, 2):
        yield from _both(tuple((size, new) for size in sizes if size > new))


def _tries(search: Search, size: int) -> list[int]:
    # With a memory limit, do not go to the very edge of it: that edge differs between machines.
    least = () if search.program.recipe.memory else (size - 1,)
    return [new for new in dict.fromkeys((1, 2, size // 2, *least)) if new < size]


def _one_size(search: Search, size: int, new: int) -> Iterator[Proposal]:
    factors = [number // size for number in numbers_in(search.program) if number > 0 and number % size == 0]
    yield from _both(tuple((size * factor, new * factor) for factor in sorted(factors)))


def _least(search: Search, low: int, high: int) -> None:
    """Bisect for the least size above `low` (too small) that fails like `high`."""
    while high - low > 1:
        middle = (low + high) // 2
        if search.first(_one_size(search, high, middle), fake=True) is None:
            low = middle
        else:
            high = middle


def _both(sizes: tuple[tuple[int, int], ...]) -> Iterator[Proposal]:
    """Resize in the code too, then in the inputs only: a number in the code may mean something else."""
    if sizes:
        yield [resize(dict(sizes), code=True)]
        yield [resize(dict(sizes), code=False)]
