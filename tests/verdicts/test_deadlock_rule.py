"""Whether ranks wait for each other for ever, from their last states."""

from dataclasses import replace

from rank_states import GATHER, REDUCE, state
from repro_kit.verdicts.deadlocks import deadlock


def test_ranks_in_different_collectives_wait_for_ever() -> None:
    both = [state(0, REDUCE), state(1, GATHER)]
    assert "rank 0 waits in all_reduce at train.py:9; rank 1 waits in all_gather" in deadlock(both, frozenset({10, 11}))


def test_two_calls_of_one_line_are_told_by_their_numbers() -> None:
    words = deadlock([state(0, REDUCE), state(1, replace(REDUCE, number=2))], frozenset({10, 11}))
    assert "rank 0 waits in all_reduce at train.py:9 (number 1 of group 0); rank 1" in words
    assert words.endswith("(number 2 of group 0)")


def test_ranks_that_may_go_on_are_left_alone() -> None:
    alive = frozenset({10, 11})
    assert not deadlock([state(0, REDUCE), state(1, REDUCE)], alive), "one slow collective"
    assert not deadlock([state(0, REDUCE), state(1, doing="compiling")], alive), "a slow compile"
    assert not deadlock([state(0, REDUCE, time=103.0), state(1, GATHER, time=103.0)], alive), "too early to tell"
    later = replace(GATHER, number=2, began=112.0)
    assert not deadlock([state(0, REDUCE), state(1, later)], alive), "rank 1 has not waited for long"
    older = state(0, REDUCE, time=121.0)
    assert not deadlock([older, state(1, replace(later, began=101.5))], alive), "rank 0 was not seen since then"


def test_calls_that_can_never_meet_are_known_sooner() -> None:
    alive = frozenset({10, 11})
    one, other = state(0, REDUCE, time=106.0), state(1, GATHER, time=106.0)
    assert deadlock([one, other], alive)
    assert not deadlock([one, state(1, replace(GATHER, number=2), time=106.0)], alive), "rank 0 may come to that later"


def test_a_rank_that_waits_for_one_that_has_ended_waits_for_ever() -> None:
    assert deadlock([state(0, REDUCE), state(1)], frozenset({10}))
