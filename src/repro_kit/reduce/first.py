"""Searches over numbered parts: the first part that makes something fail, and the few parts that a failure needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from repro_kit.model.run_outcome import RunOutcome

#: Answers for a batch of questions. An outcome other than PASSES and FAILS_ALIKE decides nothing.
AskNumbers = Callable[[Sequence[int]], Sequence[RunOutcome]]
AskSets = Callable[[Sequence[Sequence[int]]], Sequence[RunOutcome]]
_FAILS, _PASSES = RunOutcome.FAILS_ALIKE, RunOutcome.PASSES
_DECIDES = {_FAILS: True, _PASSES: False}  # whether it fails, by the outcome

_PATIENCE = 6  # undecided answers in a row after which a search gives up


@dataclass(frozen=True)
class Boundary:
    """`good` passes and `bad` fails, in either order; the numbers in `unknown` could not be decided.

    The state of a boundary search: `questions` says what to ask next, `learn` takes the answers in.
    """

    good: int
    bad: int
    unknown: frozenset[int] = field(default=frozenset(), compare=False)

    @property
    def sharp(self) -> bool:
        """Whether `good` and `bad` are neighbours."""
        return abs(self.bad - self.good) == 1

    def questions(self, width: int = 1) -> list[int]:
        """Up to `width` numbers to ask for, evenly spread from `good` to `bad`; none when nothing is left to ask."""
        step = 1 if self.bad > self.good else -1
        free = [at for at in range(self.good + step, self.bad, step) if at not in self.unknown]
        count = min(width, len(free))
        return [free[(len(free) + 1) * (number + 1) // (count + 1) - 1] for number in range(count)]

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


def first_failing(good: int, bad: int, ask: AskNumbers, width: int = 1) -> Boundary:
    """Bisect between `good` (passes) and `bad` (fails) for the first failing number, `width` questions at a time.

    If failing is not monotone, the result is some failing number that follows a passing one.
    """
    border, undecided = Boundary(good, bad), 0
    while undecided < _PATIENCE and (points := border.questions(width)):
        answers = dict(zip(points, map(_DECIDES.get, ask(points)), strict=True))
        border = border.learn(answers)
        undecided = 0 if any(answer is not None for answer in answers.values()) else undecided + len(points)
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
