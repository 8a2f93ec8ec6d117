"""What holds of every search, whatever the builds are."""

from __future__ import annotations

from math import ceil, log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro_kit.regressions.build import Mark
from repro_kit.regressions.search import (
    JudgeNext,
    Question,
    SearchEnding,
    SearchOutcome,
    following,
    next_step,
    steps_left,
)

MANY = settings(max_examples=150, deadline=None)


def run(question: Question, truth, marks=None) -> tuple[SearchOutcome, dict[int, Mark]]:
    """The outcome where build `i` is `truth(i)`, and all that was judged, in order."""
    marks = dict(marks or {})
    while isinstance(step := next_step(question, marks), JudgeNext):
        assert step.index not in marks, "asked twice"
        assert 0 <= step.index <= question.last
        marks[step.index] = truth(step.index)
    return step, marks


def turning(question: Question, at: int, broken=frozenset()):
    """Builds of which the ones from `at` on are of the new kind."""
    return lambda index: Mark.SKIP if index in broken else question.new if index >= at else question.old


@st.composite
def ranges(draw, gaps: bool):
    count = draw(st.integers(2, 400))
    at = draw(st.integers(1, count - 1))
    broken = frozenset(draw(st.sets(st.integers(1, count - 2), max_size=count // 3))) if gaps and count > 2 else ()
    return Question(count - 1, find_fix=draw(st.booleans())), at, frozenset(broken)


@MANY
@given(ranges(gaps=False))
def test_the_turn_is_found_in_few_steps(case) -> None:
    question, at, _ = case
    outcome, marks = run(question, turning(question, at))
    assert (outcome.ending, outcome.old, outcome.new) == (SearchEnding.FOUND, at - 1, at)
    assert len(marks) <= ceil(log2(question.last + 1)) + 2


@MANY
@given(ranges(gaps=True))
def test_with_gaps_the_turn_lies_in_the_range_and_all_of_the_range_is_of_no_use(case) -> None:
    question, at, broken = case
    outcome, _ = run(question, turning(question, at, broken))
    assert outcome.old < at <= outcome.new
    between = set(range(outcome.old + 1, outcome.new))
    assert between == {*outcome.skipped, *outcome.untried}
    assert set(outcome.skipped) <= broken
    assert (outcome.ending is SearchEnding.FOUND) == (not between)
    assert not outcome.untried or len(outcome.skipped) >= question.patience


@MANY
@given(ranges(gaps=True), st.data())
def test_interrupted_and_resumed_it_ends_alike(case, data) -> None:
    question, at, broken = case
    truth = turning(question, at, broken)
    outcome, marks = run(question, truth)
    kept = data.draw(st.integers(0, len(marks)))
    resumed, again = run(question, truth, dict(list(marks.items())[:kept]))
    assert (resumed, list(again)) == (outcome, list(marks))


@MANY
@given(ranges(gaps=True))
def test_what_follows_and_what_is_left_are_foreseen(case) -> None:
    question, at, broken = case
    truth = turning(question, at, broken)
    marks: dict[int, Mark] = {}
    while isinstance(step := next_step(question, marks), JudgeNext):
        foreseen = following(question, marks)
        assert len(foreseen) <= 2 and step.index not in foreseen
        assert steps_left(question, marks) > 0
        marks[step.index] = truth(step.index)
        later = next_step(question, marks)
        if isinstance(later, JudgeNext) and marks[step.index] is not Mark.SKIP:
            assert later.index in foreseen
    assert steps_left(question, marks) == 0


@MANY
@given(st.integers(2, 400), st.data())
def test_without_an_older_end_one_is_looked_for_backwards(count, data) -> None:
    question = Question(count - 1, first=None, find_fix=data.draw(st.booleans()))
    at = data.draw(st.integers(1, count - 1))
    outcome, marks = run(question, turning(question, at))
    assert (outcome.ending, outcome.old, outcome.new) == (SearchEnding.FOUND, at - 1, at)
    assert min(marks) >= max(0, question.last - 2 * (count - at) - 1), "looked further back than twice the way"


@MANY
@given(ranges(gaps=True), st.data())
def test_a_mark_set_by_hand_is_believed(case, data) -> None:
    question, at, broken = case
    truth = turning(question, at, broken)
    outcome, marks = run(question, truth)
    if outcome.new == question.last:
        return
    # The first one of the new kind was an accident: it is of the old kind, and the turn is later.
    marks[outcome.new] = question.old
    later, marks = run(question, turning(question, outcome.new + 1, broken), marks)
    assert later.old is not None and later.old >= outcome.new


def test_ends_that_do_not_differ_end_it_at_once() -> None:
    outcome, marks = run(Question(99), lambda index: Mark.GOOD)
    assert (outcome.ending, len(marks)) == (SearchEnding.NEW_IS_OLD, 1)
    outcome, marks = run(Question(99), lambda index: Mark.BAD)
    assert (outcome.ending, len(marks)) == (SearchEnding.OLD_IS_NEW, 2)
    outcome, marks = run(Question(99, first=None), lambda index: Mark.BAD)
    assert (outcome.ending, outcome.new) == (SearchEnding.OLD_IS_NEW, 0)
    assert len(marks) <= 9


def test_an_end_of_no_use_gives_way_to_its_neighbour() -> None:
    question = Question(99)
    outcome, _ = run(question, turning(question, 50, frozenset({0, 1, 98, 99})))
    assert (outcome.ending, outcome.old, outcome.new) == (SearchEnding.FOUND, 49, 50)


@pytest.mark.parametrize("first", [0, None])
def test_builds_of_no_use_throughout_are_given_up(first) -> None:
    outcome, marks = run(Question(399, first=first), lambda index: Mark.SKIP)
    assert outcome.ending is SearchEnding.NO_NEW_END
    assert len(marks) <= Question(1).patience


def test_a_wide_gap_costs_no_more_than_its_patience() -> None:
    question = Question(399)
    outcome, marks = run(question, turning(question, 200, frozenset(range(150, 250))))
    assert outcome.ending is SearchEnding.RANGE
    assert outcome.untried and outcome.old >= 120 and outcome.new <= 280
    assert len(marks) <= ceil(log2(400)) + 2 + question.patience


def test_an_old_one_after_the_turn_is_told() -> None:
    marks = {0: Mark.GOOD, 9: Mark.BAD, 4: Mark.BAD, 6: Mark.GOOD, 3: Mark.GOOD}
    assert next_step(Question(9), marks) == SearchOutcome(SearchEnding.FOUND, 3, 4, contradictions=(6,))
