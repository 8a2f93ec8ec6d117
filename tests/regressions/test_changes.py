"""Several changes of the result in one range: all are found, and each is narrowed."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from repro_kit.regressions.build import Mark
from repro_kit.regressions.search import (
    Change,
    JudgeNext,
    Question,
    SearchEnding,
    SearchOutcome,
    changes,
    next_change,
    next_step,
    with_changes,
)


def judged(question: Question, truth: list[Mark], spread: int) -> dict[int, Mark]:
    marks: dict[int, Mark] = {}
    while True:
        step = next_step(question, marks)
        further = step if isinstance(step, JudgeNext) else next_change(question, marks, spread)
        if further is None:
            return marks
        assert further.index not in marks, "asked twice"
        marks[further.index] = truth[further.index]


def outcome_of(question: Question, marks: dict[int, Mark]) -> SearchOutcome:
    outcome = next_step(question, marks)
    assert isinstance(outcome, SearchOutcome)
    return with_changes(question, marks, outcome)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(8, 40), min_size=1, max_size=5), st.booleans(), st.booleans())
def test_every_change_that_lasts_is_found(lengths: list[int], fails_first: bool, find_fix: bool) -> None:
    truth = [
        Mark.BAD if (number % 2 == 0) is fails_first else Mark.GOOD
        for number, length in enumerate(lengths)
        for _ in range(length)
    ]
    question = Question(len(truth) - 1, find_fix=find_fix)
    marks = judged(question, truth, spread=len(truth) // 8)
    turns = [at for at, (before, after) in enumerate(pairwise(truth)) if before is not after]
    assert changes(marks) == [Change(at, at + 1, truth[at] is Mark.BAD) for at in turns]
    asked = [change for change in changes(marks) if change.fixed is find_fix]
    outcome = outcome_of(question, marks)
    assert (outcome.ending is SearchEnding.FOUND) == bool(asked)
    if outcome.ending is SearchEnding.FOUND:
        assert (outcome.old, outcome.new) in [(change.before, change.after) for change in asked]


def test_builds_that_cannot_be_judged_make_a_range() -> None:
    good, bad, skip = Mark.GOOD, Mark.BAD, Mark.SKIP
    truth = [bad, bad, skip, skip, good, good, good, bad, bad]
    question = Question(len(truth) - 1, find_fix=True)
    marks = judged(question, truth, spread=3)
    assert changes(marks) == [Change(1, 4, True), Change(6, 7, False)]
    outcome = outcome_of(question, marks)
    assert (outcome.ending, outcome.old, outcome.new, outcome.skipped) == (SearchEnding.RANGE, 1, 4, (2, 3))


def test_without_a_change_of_the_kind_the_ends_stay_alike() -> None:
    question = Question(2, find_fix=False)
    marks = {0: Mark.BAD, 1: Mark.GOOD, 2: Mark.GOOD}
    outcome = outcome_of(question, marks)
    assert (outcome.ending, changes(marks)) == (SearchEnding.NEW_IS_OLD, [Change(0, 1, True)])
