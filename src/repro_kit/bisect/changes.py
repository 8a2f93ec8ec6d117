"""Every change of the result in a range of builds: fails, passes, fails. Pure functions of the marks, as the search is.

A search that halves a range finds one change. Builds that are spread over the range show the others, if each kind lasts
longer than the distance between two of them; every change between neighbours is then narrowed by halving.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from repro_kit.bisect.build import Mark
from repro_kit.bisect.next_build import (
    PATIENCE,
    JudgeNext,
    Marks,
    Question,
    SearchEnding,
    SearchOutcome,
    known_of,
    outcome_inside,
    step_inside,
)
from repro_kit.reduce.first import Boundary, Known, narrowed

_ALIKE = (SearchEnding.NEW_IS_OLD, SearchEnding.OLD_IS_NEW)


@dataclass(frozen=True)
class Change:
    """Two builds with different results, and none between them that was judged. `fixed`: the failure goes away."""

    before: int
    after: int
    fixed: bool


def changes(marks: Mapping[int, Mark | None]) -> list[Change]:
    """All changes, oldest first. Builds that cannot be judged, or are not judged yet, are passed over."""
    decided = [(at, marks[at] is Mark.BAD) for at in sorted(marks) if marks[at] in (Mark.GOOD, Mark.BAD)]
    return [Change(low, high, fails) for (low, fails), (high, later) in pairwise(decided) if fails is not later]


def step_between(change: Change, marks: Mapping[int, Mark | None], patience: int = PATIENCE) -> JudgeNext | None:
    """The build to judge next between the two of a change; None when it is as narrow as it can be."""
    return step_inside(*_border(change, marks), patience)


def next_change(question: Question, marks: Marks, spread: int) -> JudgeNext | None:
    """The build to judge next so that every change is found; None when all are narrow.

    `spread`: the number of builds, at equal distances between the ends, that are judged whatever the others are.
    """
    probes = dict.fromkeys(question.last * at // (spread + 1) for at in range(spread + 2))
    for index in probes:
        if index not in marks:
            return JudgeNext(index, f"one of {spread} spread over the range")
    steps = (step_between(change, marks, question.patience) for change in changes(marks))
    return next(filter(None, steps), None)


def with_changes(question: Question, marks: Marks, outcome: SearchOutcome) -> SearchOutcome:
    """The outcome; if both ends have the same result, that of the newest change between them of the requested kind."""
    asked = [change for change in changes(marks) if change.fixed is question.find_fix]
    if outcome.ending not in _ALIKE or not asked:
        return outcome
    border, known = _border(asked[-1], marks)
    return outcome if step_inside(border, known, question.patience) else outcome_inside(border, known)


def _border(change: Change, marks: Mapping[int, Mark | None]) -> tuple[Boundary, Known]:
    known = known_of(marks, Mark.GOOD if change.fixed else Mark.BAD)
    return narrowed(change.before, change.after, known), known
