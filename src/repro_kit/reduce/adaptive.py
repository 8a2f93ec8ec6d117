"""Drop as many items of a list as possible, in few tries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from repro_kit.reduce.search import Proposal, Search

T = TypeVar("T")


def sweep(
    search: Search,
    items: Sequence[T],
    propose: Callable[[Sequence[T]], Proposal],
    *,
    width: int | None = None,
) -> None:
    """Try to drop runs of `items` from left to right; the first is `width` long, everything if that is None.

    A run doubles as long as it can go; the item to blame when it cannot is found by halving; the next is expected as
    far away as that one was from the one before. With k items that must stay among n, about k·(log2(n/k) + 2) tries
    (galloping search, Bentley and Yao 1976, with a guess of the distance).

    While the search is coarse, an item is taken to be needed when a run must not go and all of it but this one item
    may; and a sweep gives up where most items are needed, since another pass may do better there. Otherwise, when
    nothing can be dropped, every single item has been tried.
    """
    coarse = search.coarse
    run = _Run(0, width or len(items))
    while run.at < len(items) and not (coarse and run.crowded):
        path = list[_Run]()

        def proposals(run: _Run = run, path: list[_Run] = path) -> Iterator[Proposal]:
            for it in _failing(run, len(items)):
                if coarse and it.crowded:
                    return
                path.append(it)
                yield propose(items[it.at : it.at + it.width])

        won = search.first(proposals())
        if won is None:
            return
        run = path[won].dropped(infer=coarse)


@dataclass(frozen=True)
class _Run:
    """Items from `at` on, `width` of them, are tried next."""

    at: int
    width: int
    end: int | None = None  # not all items before this one can go
    needed: int = -1  # the last item that cannot go
    count: int = 0  # of items that cannot go

    @property
    def crowded(self) -> bool:
        """Whether most items so far are needed."""
        return self.count >= 3 and self.at < 4 * self.count

    def dropped(self, *, infer: bool) -> _Run:
        """What is tried next when these could go."""
        at = self.at + self.width
        if self.end is None:
            return replace(self, at=at, width=2 * self.width)
        if infer and self.end == at + 1:
            return replace(self, at=at, width=1).failed()
        return replace(self, at=at, width=max(1, (self.end - at) // 2))

    def failed(self) -> _Run:
        """What is tried next when these cannot go."""
        if self.width > 1:
            return replace(self, width=self.width // 2, end=self.at + self.width)
        return _Run(self.at + 1, self.at - self.needed, None, self.at, self.count + 1)


def _failing(run: _Run, length: int) -> Iterator[_Run]:
    """`run`, and what is tried after it, one after the other, as long as nothing can go."""
    while run.at < length:
        run = replace(run, width=min(run.width, length - run.at))
        yield run
        run = run.failed()
