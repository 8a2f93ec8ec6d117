"""Find the first wrong values among many, with only as many watched at a time as fit into memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")

ROOM = 256 << 20  # bytes of values that are watched at a time; each is held several times while runs are compared
_MOST_PARTS = 32  # runs that look for the values which can be watched


class Firsts(NamedTuple):
    """The statements at which results begin to be wrong, those that are wrong although no result shows it, and others.

    `right`: those whose values were right in a run whose results were wrong.
    """

    names: list[str]
    harmless: Sequence[str] = ()
    right: Sequence[str] = ()


def first_wrong(
    values: Sequence[T],
    sources: Mapping[T, Collection[T]],
    sizes: Mapping[T, int],
    wrong_among: Callable[[Sequence[T]], Collection[T] | None],
    room: int = ROOM,
) -> list[T]:
    """Return those of `values` that are wrong although nothing that they are computed from is.

    `values` are in the order in which they are computed, `sizes` are in bytes. `wrong_among(watched)` runs the program
    and returns which of the watched values are wrong; None where watching them makes the program wrong in another way.
    Where all values together need more than `room` bytes, every n-th is watched; then those between the first wrong
    value and the right ones that it is computed from.
    """
    right: set[T] = set()
    unseen: set[T] = set()
    target: list[T] = []
    waiting = list(values)
    while waiting:
        asked = _spread(waiting, sizes, room)
        watched, wrong = _watched(asked, wrong_among)
        right |= set(watched) - wrong
        unseen |= set(asked) - set(watched)
        if len(asked) == len(waiting):
            later = {value for value in wrong if any(source in wrong for source in upstream(value, sources))}
            unsure = {value for value in wrong if any(source in unseen for source in upstream(value, sources, right))}
            return [value for value in watched if value in wrong - later - unsure] or target
        target = [value for value in watched if value in wrong][:1] or target
        suspects: set[T] = set()
        for value in target:
            suspects |= upstream(value, sources, right)
        waiting = [value for value in waiting if value in suspects and value not in unseen]
    return target


def _watched(values: Sequence[T], wrong_among: Callable[[Sequence[T]], Collection[T] | None]) -> tuple[list[T], set[T]]:
    """Return those of `values` that can be watched without making the program wrong in another way, and the wrong ones.

    Where that happens, each half of the values is watched alone.
    """
    waiting, seen, wrong = deque([values]), set[T](), set[T]()
    for _ in range(_MOST_PARTS):
        if not waiting:
            break
        part = waiting.popleft()
        found = wrong_among(part)
        if found is not None:
            seen.update(part)
            wrong.update(found)
        elif len(part) > 1:
            waiting += [part[: len(part) // 2], part[len(part) // 2 :]]
    return [value for value in values if value in seen], wrong


def _spread(values: Sequence[T], sizes: Mapping[T, int], room: int) -> list[T]:
    """Return every n-th of `values`, the last one included, so that they fit into `room`."""
    step = 1
    while step < len(values) and sum(sizes[value] for value in values[::-1][::step]) > room:
        step += 1
    return list(values[::-1][::step][::-1])


def upstream(value: T, sources: Mapping[T, Collection[T]], right: Collection[T] = ()) -> set[T]:
    """Return everything that `value` is computed from, without `right` and what is seen only through those."""
    reached: set[T] = set()
    waiting = [value]
    while waiting:
        new = set(sources.get(waiting.pop(), ())) - reached - set(right)
        reached |= new
        waiting += new
    return reached
