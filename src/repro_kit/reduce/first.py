"""Searches over numbered parts: the first part that makes a subject fail, and the few parts that a failure needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from repro_kit.model.run_outcome import RunOutcome

#: Answers for a batch of questions. An outcome other than PASSES and FAILS_ALIKE decides nothing.
AskNumbers = Callable[[Sequence[int]], Sequence[RunOutcome]]
AskSets = Callable[[Sequence[Sequence[int]]], Sequence[RunOutcome]]
_FAILS, _PASSES = RunOutcome.FAILS_ALIKE, RunOutcome.PASSES

_PATIENCE = 6  # undecided answers in a row after which a search gives up


@dataclass(frozen=True)
class Boundary:
    """`good` passes, `bad` fails, and no number in between could be decided."""

    good: int
    bad: int

    @property
    def sharp(self) -> bool:
        """Whether `good` and `bad` are neighbours."""
        return self.bad == self.good + 1


def first_failing(good: int, bad: int, ask: AskNumbers, width: int = 1) -> Boundary:
    """Bisect between `good` (passes) and `bad` (fails) for the first failing number, `width` questions at a time.

    If failing is not monotone, the result is some failing number that follows a passing one.
    """
    silent: set[int] = set()
    in_a_row = 0
    while in_a_row < _PATIENCE:
        points = _spread(good, bad, silent, width)
        if not points:
            break
        decided = False
        answers = dict(zip(points, ask(points), strict=True))
        for at in sorted(answers):
            if answers[at] not in (_FAILS, _PASSES):
                silent.add(at)
                continue
            decided = True
            if answers[at] is _FAILS:
                bad = at
                break
            good = at
        in_a_row = 0 if decided else in_a_row + len(points)
    return Boundary(good, bad)


def _spread(good: int, bad: int, silent: set[int], width: int) -> list[int]:
    """Up to `width` numbers between `good` and `bad`, evenly spread over those that are not `silent` (undecided)."""
    free = [at for at in range(good + 1, bad) if at not in silent]
    count = min(width, len(free))
    return sorted({free[(len(free) * (number + 1)) // (count + 1)] for number in range(count)})


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
