"""Make shapes smaller: each size in all places at once, then in one place; checked with fake tensors first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby

from repro_kit.program import Program
from repro_kit.program.program_edits import resize, rewrite
from repro_kit.program.resize import flat, is_resizable, numbers_in, sizes_of, with_sizes, without_dimension
from repro_kit.reduce.adaptive import narrow, rebasing
from repro_kit.reduce.search_state import Proposal, Search

Place = tuple[str, int]  # (input, dimension)
_LARGE = 10_000  # from here on, numbers shrink to their square root at once
_MOST = 16  # places whose sizes are changed one at a time


@rebasing
def shapes(search: Search) -> None:
    """Make all inputs one element, or all sizes 1 or 2. Then make each size smaller, and drop dimensions of size 1.

    A size becomes 1, 2, half or one less, and its multiples with it; then so in one dimension of all inputs, and of one
    input. Where one less works and half does not, a bisection finds the least size that works. Nothing is done while
    values are stored: their sizes are fixed.
    """
    if search.program.stored:
        return
    search.first(_all_at_once(search), fake=True)
    for size in sizes_of(search.program):
        shrink(search, size, partial(_one_size, search))
    for places in _places(search.program):
        size = _size(search.program, places[0])
        if size > 1 and all(_size(search.program, place) == size for place in places):
            shrink(search, size, partial(_in_places, places))
    while search.first(_fewer_dimensions(search.program), fake=True) is not None:
        pass


def shrink(search: Search, size: int, propose: Callable[[int, int], Iterator[Proposal]]) -> None:
    """Make a number 1, 2, half or one less, as long as that fails alike; if one less, the least that does.

    `propose`: (old number, new number) -> edits.
    """
    while size > 1:
        tries = [(new, proposal) for new in _tries(search, size) for proposal in propose(size, new)]
        won = search.first((proposal for _, proposal in tries), fake=True)
        if won is None:
            return
        new = tries[won][0]
        if size > 3 and new == size - 1:
            narrow(search, size // 2, new, propose, fake=True)
            return
        size = new


def _tries(search: Search, size: int) -> list[int]:
    """Smaller numbers to try in place of `size`."""
    # With a memory limit, do not go to the very edge of it: that edge differs between machines.
    least = () if search.program.recipe.memory else (size - 1,)
    root = (math.isqrt(size),) if size > _LARGE else ()
    return [new for new in dict.fromkeys((1, 2, *root, size // 2, *least)) if new < size]


def _all_at_once(search: Search) -> Iterator[Proposal]:
    yield rewrite(flat, tidy=False)
    sizes = sizes_of(search.program)
    for new in (1, 2):
        yield from _both(tuple((size, new) for size in sizes if size > new))


def _one_size(search: Search, size: int, new: int) -> Iterator[Proposal]:
    factors = [number // size for number in numbers_in(search.program) if number > 0 and number % size == 0]
    yield from _both(tuple((size * factor, new * factor) for factor in sorted(factors)))


def _both(sizes: tuple[tuple[int, int], ...]) -> Iterator[Proposal]:
    """Resize in the code too, then in the inputs only: a number in the code may mean something else."""
    if sizes:
        yield resize(dict(sizes), code=True)
        yield resize(dict(sizes), code=False)


def _in_places(places: tuple[Place, ...], _: int, new: int) -> Iterator[Proposal]:
    yield rewrite(partial(with_sizes, sizes=dict.fromkeys(places, new)), tidy=False)


def _places(program: Program) -> list[tuple[Place, ...]]:
    """Dimensions above 1 that change together: the same one of all inputs with that size; then each one alone."""
    all_places = [
        (axis, size, line.name)
        for line in program.inputs
        if is_resizable(line)
        for axis, size in enumerate(line.data.sizes or ())
        if size > 1
    ]
    if len(all_places) > _MOST:
        return []
    groups = [list(group) for _, group in groupby(sorted(all_places), key=lambda place: place[:2])]
    together = [tuple((name, axis) for axis, _, name in group) for group in groups]
    return [*together, *(((name, axis),) for axis, _, name in all_places if len(all_places) > 1)]


def _size(program: Program, place: Place) -> int:
    """The size at the place; 0 if it is gone."""
    lines = {line.name: line.data.sizes or () for line in program.inputs if is_resizable(line)}
    name, axis = place
    return lines[name][axis] if axis < len(lines.get(name, ())) else 0


def _fewer_dimensions(program: Program) -> Iterator[Proposal]:
    """Without the first dimension of all inputs where it is 1, then without one dimension of 1 of one input."""
    shapes = {line.name: line.data.sizes or () for line in program.inputs if is_resizable(line)}
    places = [(name, axis) for name, shape in shapes.items() if len(shape) > 1 for axis in range(len(shape))]
    ones = [(name, axis) for name, axis in places if shapes[name][axis] == 1]
    first = frozenset((name, axis) for name, axis in ones if axis == 0)
    for dropped in (first, *(frozenset({place}) for place in ones)):
        if dropped:
            yield rewrite(partial(without_dimension, places=dropped), tidy=False)
