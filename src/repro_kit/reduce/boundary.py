"""Searches over numbered parts: where a failure begins, and the few parts that a failure needs.

`narrowed` and `next_points` are the one search for a boundary in an order with unknown members: pure functions of what
is known so far. Bisections of builds, the plan of a farm, the ablation and the cuts of the reducer use them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from repro_kit.failure.signature import RunOutcome

#: Answers for a batch of questions. An outcome other than PASSES and FAILS_ALIKE decides nothing.
AskNumbers = Callable[[Sequence[int]], Sequence[RunOutcome]]
AskSets = Callable[[Sequence[Sequence[int]]], Sequence[RunOutcome]]
#: Whether a number fails; None: it was asked, and the answer decides nothing. Numbers that were not asked are missing.
Known = Mapping[int, bool | None]

_FAILS, _PASSES = RunOutcome.FAILS_ALIKE, RunOutcome.PASSES
_FAILING = {_FAILS: True, _PASSES: False}
_PATIENCE = 6  # undecided numbers between the two borders that end a search
_MISSES = 3  # separate stretches of undecided numbers, after which the longest stretch between them is tried


@dataclass(frozen=True)
class Boundary:
    """`good` passes and `bad` fails, in either order; the numbers in `unknown` could not be decided.

    The state of a search that asks and learns step by step: `questions` says what to ask next, `learn` takes the
    answers in.
    """

    good: int
    bad: int
    unknown: frozenset[int] = field(default=frozenset(), compare=False)

    @property
    def sharp(self) -> bool:
        """Whether `good` and `bad` are neighbours."""
        return abs(self.bad - self.good) == 1

    @property
    def inside(self) -> range:
        """The numbers in between."""
        return range(min(self.good, self.bad) + 1, max(self.good, self.bad))

    def questions(self, width: int = 1) -> list[int]:
        """Up to `width` numbers to ask for, from `good` to `bad`; none when nothing is left, or too much is unknown."""
        step = 1 if self.bad > self.good else -1
        undecided: Known = {(at - self.good) * step: None for at in self.unknown}
        points = next_points(Boundary(0, abs(self.bad - self.good)), undecided, width)
        return [self.good + step * at for at in points]

    def learn(self, fails: Mapping[int, bool | None]) -> Boundary:
        """The boundary after the answers to some of the `questions`, in their order; None: undecided.

        If failing is not monotone, the first failing number counts, and the answers after it do not.
        """
        good, bad, unknown = self.good, self.bad, self.unknown
        for at, failed in fails.items():
            if failed:
                bad = at
                break
            if failed is None:
                unknown |= {at}
            else:
                good = at
        return Boundary(good, bad, unknown)


def narrowed(good: int, bad: int, known: Known) -> Boundary:
    """The first number between `good` (passes) and `bad` (fails) that fails, and the last one before it that passes."""
    first = min((at for at, fails in known.items() if fails and good < at < bad), default=bad)
    last = max((at for at, fails in known.items() if fails is False and good < at < first), default=good)
    return Boundary(last, first)


def next_points(border: Boundary, known: Known, width: int = 1, patience: int = _PATIENCE) -> list[int]:
    """Up to `width` numbers to ask next, ascending; none if the border is sharp, or `patience` ones are undecided."""
    runs = list(_free_runs(border.inside, known))
    free = sum(map(len, runs))
    if not free or len(border.inside) - free >= patience:
        return []
    if width == 1:
        return [_middle(runs)]
    count = min(width, free)
    return [_at(runs, (free * (number + 1)) // (count + 1)) for number in range(count)]


def _free_runs(inside: range, known: Known) -> Iterator[range]:
    """The stretches of numbers that were not asked. They are ranges, since the numbers of a program can be huge."""
    start = inside.start
    for at in [*sorted(at for at in known if at in inside), inside.stop]:
        if at > start:
            yield range(start, at)
        start = at + 1


def _at(runs: Sequence[range], index: int) -> int:
    """The free number with this index among all free ones."""
    for run in runs:
        if index < len(run):
            return run[index]
        index -= len(run)
    raise IndexError(index)


def _middle(runs: Sequence[range]) -> int:
    """The free number that best halves the free ones, away from undecided numbers, which come in clusters.

    So it lies at least a quarter of a run of free numbers from the ends of that run. After a few undecided answers, it
    is the middle of the longest run.
    """
    if len(runs) > _MISSES:
        longest = max(runs, key=len)
        return longest[len(longest) // 2]
    before = accumulate(map(len, runs), initial=0)  # how many free numbers lie before each run
    candidates = [
        (first + offset, run[offset])
        for first, run in zip(before, runs, strict=False)
        for offset in (len(run) * quarter // 4 for quarter in (2, 1, 3))
    ]
    middle = sum(map(len, runs)) // 2
    return min(candidates, key=lambda candidate: abs(candidate[0] - middle))[1]


def boundary_search(good: int, bad: int, ask: AskNumbers, width: int = 1) -> Boundary:
    """Bisect between `good` (passes) and `bad` (fails) for the first failing number, `width` questions at a time.

    If failing is not monotone, the result is some failing number that follows a passing one.
    """
    border = Boundary(good, bad)
    while points := border.questions(width):
        border = border.learn(dict(zip(points, map(_FAILING.get, ask(points)), strict=True)))
    return border


def needed(items: Sequence[int], ask: AskSets, width: int = 1, budget: int = 1 << 30) -> tuple[list[int], bool]:
    """(the items that the failure needs, whether every one of them was tried alone).

    All `items` together must fail. Runs of items are left out, and the run length is halved when nothing more can go:
    the complements of ddmin (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002). At most
    `budget` questions are asked.
    """
    kept = list(items)
    size = max(1, len(kept) // 2)
    asked = 0
    while kept:
        progress = False
        at = 0
        while at < len(kept):
            runs = [kept[:low] + kept[low + size :] for low in range(at, min(len(kept), at + size * width), size)]
            if asked + len(runs) > budget:
                return kept, False
            asked += len(runs)
            won = next((number for number, outcome in enumerate(ask(runs)) if outcome is _FAILS), None)
            if won is None:
                at += size * len(runs)
                continue
            kept, at, progress = runs[won], at + size * won, True
        if size == 1 and not progress:
            return kept, True
        size = max(1, size // 2)
    return kept, True


def curing(groups: Sequence[Sequence[int]], ask: AskSets, budget: int = 1 << 30) -> tuple[list[int], bool]:
    """(the items each of which alone makes the subject pass, whether all were tried). At most `budget` questions.

    A group that fails alike is taken to contain no such item. Any other group is halved (group testing).
    """
    passing: list[int] = []
    waiting = [list(group) for group in groups]
    while waiting:
        if len(waiting) > budget:
            return sorted(passing), False
        budget -= len(waiting)
        split = []
        for group, outcome in zip(waiting, ask(waiting), strict=True):
            if len(group) > 1 and outcome is not _FAILS:
                split += [group[: len(group) // 2], group[len(group) // 2 :]]
            elif outcome is _PASSES:
                passing += group
        waiting = split
    return sorted(passing), True
