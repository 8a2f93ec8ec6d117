"""What passes over graphs and over scripts have in common: the ways to propose changes with few queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, TypeVar

from repro_kit.reduce.boundary import Boundary
from repro_kit.reduce.search import CandidateSearch

T = TypeVar("T")
S = TypeVar("S", bound=CandidateSearch[Any, Any])


def rebasing(pass_: Callable[[S], None]) -> Callable[[S], None]:
    """A pass after which the search continues from its result, if it made progress: its edits are of the old base."""

    @wraps(pass_)
    def run(search: S) -> None:
        steps = len(search.history)
        pass_(search)
        if len(search.history) > steps:
            search.rebase()

    return run


def one_by_one(search: S, propose: Callable[[S], Iterable[object]], *, equivalent: bool = False) -> None:
    """Accept proposals one at a time. The search continues from each, since such edits move code."""
    while search.first(propose(search), equivalent=equivalent) is not None:
        search.rebase()


def each(search: CandidateSearch[Any, Any], places: Iterable[Iterable[object]], *, equivalent: bool = False) -> None:
    """For each place in turn, take the first alternative that fails alike."""
    for alternatives in places:
        search.first(alternatives, equivalent=equivalent)


def narrow(
    search: CandidateSearch[Any, Any],
    good: int,
    bad: int,
    propose: Callable[[int, int], Iterable[object]],
    *,
    fake: bool = False,
) -> Boundary:
    """Bisect for the number nearest to `good` that fails like `bad`, the number of the best program.

    `propose`: (the number of the best program, another number) -> the proposals that put the other one in its place.
    A number of which no proposal fails alike counts as good.
    """
    border = Boundary(good, bad)
    while points := border.questions(max(1, search.oracle.jobs)):
        tries = [(at, proposal) for at in points for proposal in propose(border.bad, at)]
        won = search.first((proposal for _, proposal in tries), fake=fake)
        border = border.learn({at: won is not None and at == tries[won][0] for at in points})
    return border


#: Up to here the least number that fails is looked for, and above it a round one: that costs less, and reads better.
EXACT = 64
_BINARY = (*range(4, 17), 24, 31, 32)  # powers of two: usual sizes, and where float32, int32 and uint32 end


def powers_of_ten(low: int, high: int) -> list[int]:
    """The powers of ten between the two."""
    return [number for number in (10**power for power in range(1, len(str(high)))) if low < number < high]


def round_numbers(low: int, high: int) -> list[int]:
    """Numbers between the two that read well: few digits, or a usual power of two."""
    tens, powers = [10**power for power in range(len(str(high)))], [1 << power for power in _BINARY]
    few_digits = [high // ten * ten for ten in tens[-2:]] if high not in powers else []
    numbers = {*(step * ten for ten in tens for step in (1, 2, 5)), *powers, *few_digits}
    return sorted(number for number in numbers if low < number < high)


def is_round(number: int) -> bool:
    """Whether the number has two digits before its zeros, is a power of two, or just above one."""
    return len(str(number).rstrip("0")) <= 2 or number & (number - 1) == 0 or (number - 1) & (number - 2) == 0


def sweep(
    search: CandidateSearch[Any, Any],
    items: Sequence[T],
    propose: Callable[[Sequence[T]], object],
    *,
    width: int | None = None,
) -> None:
    """Try to drop runs of consecutive `items`, from left to right. The first run has `width` items (None: all of them).

    After each success the run doubles. After a failure, halving finds the item that must stay; the next run ends where
    an item that must stay is expected, from the distance of the last two. If k of n items must stay, a sweep makes
    about k·(log2(n/k) + 2) queries (galloping search: Bentley and Yao, "An almost optimal algorithm for unbounded
    searching", 1976; the guessed distance is an addition).

    While `search.coarse` is set, an item counts as needed as soon as its run cannot go but the run without this item
    can; and a sweep gives up where most items are needed, because another pass may do better there. Otherwise, when a
    sweep drops nothing, every single item has been tried.
    """
    coarse = search.coarse
    run = _Run(0, width or len(items))
    while run.at < len(items) and not (coarse and run.crowded):
        path = list[_Run]()

        def proposals(run: _Run = run, path: list[_Run] = path) -> Iterator[object]:
            for next_run in _failing(run, len(items)):
                if coarse and next_run.crowded:
                    return
                path.append(next_run)
                yield propose(items[next_run.at : next_run.at + next_run.width])

        won = search.first(proposals())
        if won is None:
            return
        run = path[won].dropped(infer=coarse)


@dataclass(frozen=True)
class _Run:
    """The next items to try: `width` of them, from index `at` on."""

    at: int
    width: int
    end: int | None = None  # some item before this index must stay
    needed: int = -1  # index of the last item that must stay
    count: int = 0  # number of items that must stay

    @property
    def crowded(self) -> bool:
        """Whether most items so far are needed."""
        return self.count >= 3 and self.at < 4 * self.count

    def dropped(self, *, infer: bool) -> _Run:
        """The next run to try, after these items were dropped."""
        at = self.at + self.width
        if self.end is None:
            return replace(self, at=at, width=2 * self.width)
        if infer and self.end == at + 1:
            return replace(self, at=at, width=1).failed()
        return replace(self, at=at, width=max(1, (self.end - at) // 2))

    def failed(self) -> _Run:
        """The next run to try, after these items could not be dropped."""
        if self.width > 1:
            return replace(self, width=self.width // 2, end=self.at + self.width)
        return _Run(self.at + 1, self.at - self.needed, None, self.at, self.count + 1)


def _failing(run: _Run, length: int) -> Iterator[_Run]:
    """`run`, and the runs to try after it if nothing can be dropped."""
    while run.at < length:
        run = replace(run, width=min(run.width, length - run.at))
        yield run
        run = run.failed()
