"""Searches over numbered parts of something: the first that makes it fail, and the few that it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from repro_kit.model.run_outcome import RunOutcome

#: Answers for a batch of questions. An outcome that neither passes nor fails alike tells nothing.
AskNumbers = Callable[[Sequence[int]], Sequence[RunOutcome]]
AskSets = Callable[[Sequence[Sequence[int]]], Sequence[RunOutcome]]
_FAILS, _PASSES = RunOutcome.FAILS_ALIKE, RunOutcome.PASSES

_PATIENCE = 6  # answers in a row that tell nothing before a search gives up


@dataclass(frozen=True)
class Boundary:
    """`good` passes, `bad` fails, and nothing in between told anything."""

    good: int
    bad: int

    @property
    def sharp(self) -> bool:
        """Whether the two are neighbours."""
        return self.bad == self.good + 1


def first_failing(good: int, bad: int, ask: AskNumbers, width: int = 1) -> Boundary:
    """Where between `good`, which passes, and `bad`, which fails, it begins to fail; `width` questions at a time.

    Where failing is not monotone, some place where a number that fails follows one that passes.
    """
    silent: set[int] = set()
    in_a_row = 0
    while in_a_row < _PATIENCE:
        points = _spread(good, bad, silent, width)
        if not points:
            break
        told = False
        answers = dict(zip(points, ask(points), strict=True))
        for at in sorted(answers):
            if answers[at] not in (_FAILS, _PASSES):
                silent.add(at)
                continue
            told = True
            if answers[at] is _FAILS:
                bad = at
                break
            good = at
        in_a_row = 0 if told else in_a_row + len(points)
    return Boundary(good, bad)


def _spread(good: int, bad: int, silent: set[int], width: int) -> list[int]:
    """Up to `width` numbers between the two, evenly spread, as near as can be where some told nothing."""
    free = [at for at in range(good + 1, bad) if at not in silent]
    count = min(width, len(free))
    return sorted({free[(len(free) * (number + 1)) // (count + 1)] for number in range(count)})


def needed(items: Sequence[int], ask: AskSets, width: int = 1, budget: int = 1 << 30) -> tuple[list[int], bool]:
    """Items that must all be there for it to fail, and whether each of them was seen to be needed.

    All of `items` together fail. Runs of items are left out, halved where that passes (ddmin's complements); at most
    `budget` questions.
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
    """Items each of which alone makes it pass, and whether all were looked at; at most `budget` questions.

    A group that fails as before is taken to hold none; any other one is halved (group testing).
    """
    found: list[int] = []
    waiting = [list(group) for group in groups]
    while waiting:
        if len(waiting) > budget:
            return sorted(found), False
        budget -= len(waiting)
        split = []
        for group, outcome in zip(waiting, ask(waiting), strict=True):
            if len(group) > 1 and outcome is not _FAILS:
                split += [group[: len(group) // 2], group[len(group) // 2 :]]
            elif outcome is _PASSES:
                found += group
        waiting = split
    return sorted(found), True
