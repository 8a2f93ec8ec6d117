"""The search for the first build with (or without) the failure, and for every change: pure functions of the marks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from math import ceil, log2

from repro_kit.reduce.boundary import Boundary, Known, narrowed, next_points
from repro_kit.regressions.build import Mark

#: So many builds that cannot be judged, between the last good and the first bad build, end the search.
PATIENCE = 16

Marks = Mapping[int, Mark]


@dataclass(frozen=True)
class Question:
    """Which of the builds 0 … `last`, oldest first, is the first of the new kind?

    `first` is the build said to be of the old kind; None: unknown, the search looks backwards from `last`. The old kind
    is good and the new kind bad; `find_fix` swaps them.
    """

    last: int
    first: int | None = 0
    find_fix: bool = False
    patience: int = PATIENCE

    @property
    def old(self) -> Mark:
        """The mark of the builds before the change."""
        return Mark.BAD if self.find_fix else Mark.GOOD

    @property
    def new(self) -> Mark:
        """The mark of the builds from the change on."""
        return Mark.GOOD if self.find_fix else Mark.BAD


@dataclass(frozen=True)
class JudgeNext:
    """The build to judge next, and the reason."""

    index: int
    why: str


class SearchEnding(StrEnum):
    """How a search ended."""

    FOUND = "found"
    RANGE = "range"  # builds that cannot be judged lie between the last old and the first new build
    NEW_IS_OLD = "the newer end is like the older one"
    OLD_IS_NEW = "the older end is like the newer one"
    NO_NEW_END = "no build at the newer end can be judged"
    NO_OLD_END = "no build at the older end can be judged"


@dataclass(frozen=True)
class SearchOutcome:
    """The result: the last build of the old kind (`old`) and the first of the new kind (`new`), as far as known."""

    ending: SearchEnding
    old: int | None = None
    new: int | None = None
    skipped: tuple[int, ...] = ()  # builds between them that cannot be judged
    untried: tuple[int, ...] = ()  # builds between them that were not tried, because the patience was used up
    contradictions: tuple[int, ...] = ()  # builds of the old kind that are newer than `new`


def next_step(question: Question, marks: Marks) -> JudgeNext | SearchOutcome:
    """The build to judge next, or the result."""
    if question.find_fix and question.first is not None:  # judge the failing end first: it shows the failure
        start = _older_end(question, marks, question.last)
        if not isinstance(start, int):
            return start
    new = _newer_end(question, marks)
    if not isinstance(new, int):
        return new
    old = _expanded(question, marks, new) if question.first is None else _older_end(question, marks, new)
    if not isinstance(old, int):
        return old
    known = known_of(marks, question.new)
    border = narrowed(old, new, known)
    after = range(border.bad + 1, question.last + 1)
    contradictions = tuple(index for index in after if marks.get(index) is question.old)
    return step_inside(border, known, question.patience) or outcome_inside(border, known, contradictions)


def step_inside(border: Boundary, known: Known, patience: int) -> JudgeNext | None:
    """The build between two borders to judge next; None when none of them is worth it."""
    points = next_points(border, known, patience=patience)
    if not points:
        return None
    count = len(border.inside)
    return JudgeNext(points[0], f"in the middle of the {count} builds between" if count > 1 else "the only one between")


def outcome_inside(border: Boundary, known: Known, contradictions: tuple[int, ...] = ()) -> SearchOutcome:
    """The result if no build between the borders is judged further."""
    return SearchOutcome(
        SearchEnding.FOUND if border.sharp else SearchEnding.RANGE,
        border.good,
        border.bad,
        tuple(index for index in border.inside if index in known),
        tuple(index for index in border.inside if index not in known),
        contradictions,
    )


def known_of(marks: Mapping[int, Mark | None], new: Mark) -> dict[int, bool | None]:
    """The marks as `narrowed` takes them: whether a build is of the kind `new`; None for a skipped one."""
    return {index: None if mark is Mark.SKIP else mark is new for index, mark in marks.items() if mark is not None}


def following(question: Question, marks: Marks) -> list[int]:
    """The builds that may be asked for after the next one, whatever the next judgement is."""
    ask = next_step(question, marks)
    if isinstance(ask, SearchOutcome):
        return []
    steps = (next_step(question, {**marks, ask.index: mark}) for mark in (question.old, question.new))
    return list(dict.fromkeys(step.index for step in steps if isinstance(step, JudgeNext)))


def steps_left(question: Question, marks: Marks) -> int:
    """An estimate of the number of builds still to judge."""
    step = next_step(question, marks)
    if isinstance(step, SearchOutcome):
        return 0
    first = question.first or 0
    news = [index for index, mark in marks.items() if mark is question.new and first < index <= question.last]
    high = min(news, default=question.last)
    olds = [index for index, mark in marks.items() if mark is question.old and first <= index < high]
    unverified = (not news) + (not olds)
    low = max(olds, default=first)
    untried = sum(index not in marks for index in range(low + 1, high))
    return unverified + (ceil(log2(untried + 1)) if untried else 0)


def _newer_end(question: Question, marks: Marks) -> int | JudgeNext | SearchOutcome:
    """The newest build that can be judged; it must be of the new kind."""
    for index in range(question.last, (question.first or 0) - 1, -1):
        mark = marks.get(index)
        if mark is None:
            return JudgeNext(
                index, "to verify the newer end" if index == question.last else "since newer ones cannot be judged"
            )
        if mark is question.new:
            return index
        if mark is question.old:
            return SearchOutcome(SearchEnding.NEW_IS_OLD, old=index)
        if _gives_up(question, question.last - index + 1):
            break
    return SearchOutcome(SearchEnding.NO_NEW_END)


def _older_end(question: Question, marks: Marks, new: int) -> int | JudgeNext | SearchOutcome:
    """The oldest build that can be judged; it must be of the old kind."""
    first = question.first or 0
    for index in range(first, new):
        mark = marks.get(index)
        if mark is None:
            return JudgeNext(
                index, "to verify the older end" if index == first else "since older ones cannot be judged"
            )
        if mark is question.old:
            return index
        if mark is question.new:
            return SearchOutcome(SearchEnding.OLD_IS_NEW, new=index)
        if _gives_up(question, index - first + 1):
            break
    return SearchOutcome(SearchEnding.NO_OLD_END, new=new)


def _expanded(question: Question, marks: Marks, new: int) -> int | JudgeNext | SearchOutcome:
    """A build of the old kind, searched backwards in steps that double, down to the oldest that can be judged."""
    wanted = list(_backwards(new))
    for index in wanted:
        mark = marks.get(index)
        if mark is None:
            return JudgeNext(index, f"{new - index} builds back, in search of one that is still {question.old}")
        if mark is question.old:
            return index
    judged_new = [index for index in range(new) if marks.get(index) is question.new]
    oldest = min(judged_new, default=new)
    for index in range(oldest):  # the oldest build cannot be judged: try the ones after it
        mark = marks.get(index)
        if mark is None:
            return JudgeNext(index, "since older ones cannot be judged")
        if mark is question.old:
            return index
        if _gives_up(question, index + 1):
            break
    return SearchOutcome(SearchEnding.OLD_IS_NEW if oldest == 0 else SearchEnding.NO_OLD_END, new=oldest)


def _backwards(new: int) -> Iterable[int]:
    distance = 1
    while distance < new:
        yield new - distance
        distance *= 2
    if new > 0:
        yield 0


def _gives_up(question: Question, skipped: int) -> bool:
    return skipped >= question.patience


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
