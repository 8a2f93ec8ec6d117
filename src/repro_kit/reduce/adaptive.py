"""Drop as many items of a list as possible, in few tries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from repro_kit.reduce.search import Proposal, Search

T = TypeVar("T")


def sweep(
    search: Search, items: Sequence[T], propose: Callable[[Sequence[T]], Proposal], *, fake: bool = False
) -> None:
    """Try to drop runs of `items` from left to right; a run halves on failure and doubles on success.

    The first run is everything. With k items that must stay among n, about k·(2·log2(n/k) + 1) tries (galloping
    search, Bentley and Yao 1976). While the search is coarse, a sweep gives up after a few failures in a row, since
    another pass may do better there; otherwise, when nothing can be dropped, every single item has been tried.
    """
    patience = 2 * len(items).bit_length() + 2 if search.coarse else None
    at, width = 0, len(items)
    while at < len(items):
        path = list(islice(_failing_path(at, width, len(items)), patience))
        won = search.first((propose(items[start : start + count]) for start, count in path), fake=fake)
        if won is None:
            return
        start, count = path[won]
        at, width = start + count, count * 2


def _failing_path(at: int, width: int, length: int) -> Iterator[tuple[int, int]]:
    """The runs that are tried next, one after the other, as long as every one fails."""
    while at < length:
        width = min(width, length - at)
        yield at, width
        if width == 1:
            at += 1
        else:
            width //= 2
