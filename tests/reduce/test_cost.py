"""What a query is expected to cost, and into how many parts a program is divided for it."""

import pytest

from repro_kit.reduce.cost import Costs


def costs(*seen: tuple[int, float], failing: tuple[tuple[int, float], ...] = ()) -> Costs:
    learnt = Costs()
    for fails, answers in ((False, seen), (True, failing)):
        for statements, seconds in answers:
            learnt.learn(statements, seconds, fails=fails)
    return learnt


def test_a_line_goes_through_what_was_seen() -> None:
    assert Costs().seconds(50) == 1.0
    assert costs((50, 36.0)).seconds(10) == pytest.approx(8.0)  # a second for the compiler itself
    assert costs((50, 0.5)).seconds(10) == 0.5
    learnt = costs((0, 2.0), failing=((50, 37.0),))
    assert (learnt.seconds(3), learnt.seconds(50)) == (pytest.approx(4.1), pytest.approx(37.0))
    assert costs((10, 3.0), (20, 1.0)).seconds(99) < 3.0, "a large program takes no less than a small one"
    assert costs((10, 1.0), (20, 9.0)).seconds(0) >= 0


def test_a_hang_takes_its_limit_and_passes_at_once() -> None:
    hangs = costs((0, 1.0), (12, 1.6), failing=((50, 30.0), (25, 30.0)))
    assert hangs.seconds(20, fails=True) == pytest.approx(30.0)
    assert hangs.seconds(20) == pytest.approx(2.0)
    assert hangs.parts(100) > 8, "few answers that fail"


def test_parts_are_small_where_each_statement_costs() -> None:
    assert costs((0, 0.01), (50, 50.0)).parts(27) > costs((50, 1.0)).parts(27) > 2
