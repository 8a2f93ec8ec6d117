import statistics

import pytest

from repro_kit.failure.compiled_calls import CompiledCall, extra_memory, interval, slowdown

# Recorded on a busy machine: seconds of one call, compiled and in eager, by turns.
BUSY = ((3.7e-4, 1.6e-4), (1.0e-4, 5.0e-5), (1.1e-4, 4.0e-5), (8.4e-5, 4.2e-5), (8.0e-5, 3.8e-5), (7.8e-5, 4.1e-5),
        (7.7e-5, 3.7e-5), (7.5e-5, 4.0e-5), (7.3e-5, 3.6e-5), (7.1e-5, 4.0e-5), (6.9e-5, 3.5e-5), (6.9e-5, 3.8e-5),
        (6.8e-5, 3.5e-5), (6.9e-5, 1.1e-4), (9.9e-5, 3.9e-5))  # fmt: skip


def test_outliers_do_not_decide():
    found = slowdown([CompiledCall("f at a.py:1", calls=5, rounds=BUSY)])
    assert found is not None
    assert 1.8 < found.low < found.value < found.high < 2.6
    assert found.detail == "f at a.py:1 77 µs, in eager 40 µs"


def test_what_is_called_often_counts_often():
    slow = CompiledCall("slow", calls=1, rounds=((2.0, 1.0),) * 9)
    fast = CompiledCall("fast", calls=99, rounds=((0.5, 1.0),) * 12)
    found = slowdown([slow, fast])
    assert found is not None
    assert found.value == pytest.approx((2 + 99 * 0.5) / 100)
    assert found.detail.startswith("slow ")  # named first: it is where time is lost


def test_memory_below_a_floor_is_no_matter():
    small = CompiledCall("f", calls=1, memory=((90_000, 4_000),) * 3)
    large = CompiledCall("f", calls=1, memory=((90 << 20, 30 << 20),) * 3)
    found = extra_memory([small]), extra_memory([large])
    assert found[0] is not None and found[0].value == 1.0
    assert found[1] is not None and found[1].value == 3.0
    assert found[1].detail == "f 90.0 MiB compiled, 30.0 MiB in eager"


def test_nothing_measured_is_nothing():
    assert slowdown([CompiledCall("f", calls=3, problem="RuntimeError: x")]) is None
    assert extra_memory([]) is None


@pytest.mark.parametrize("count", [1, 2, 5, 9, 30, 60])
def test_the_interval_holds_the_median(count):
    values = [((7 * n) % count) + 1.0 for n in range(count)]
    found = interval(values)
    assert min(values) <= found.low <= statistics.median(values) == found.value <= found.high <= max(values)
