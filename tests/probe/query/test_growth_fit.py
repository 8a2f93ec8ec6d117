"""The form and the rate of growing compile times, in the user's interpreter."""

import json
import subprocess
import sys

import pytest

from repro_kit.runner.supervised import PROBE

pytestmark = pytest.mark.torch

SCRIPT = """
import json
from repro_probe.embedded import growth

def noisy(seconds):
    return {count: taken * (1.1 if at % 3 == 1 else 1.0) for at, (count, taken) in enumerate(seconds.items())}

def rate(seconds):
    return growth.growing_part(seconds)[:2]

def pass_of(seconds):
    # a compile within one function; the cubic pass is within that one
    part = {n: 2e-6 * n**3 for n in seconds}
    return {n: {whole.__code__: t, cubic.__code__: part[n], linear.__code__: t - part[n]} for n, t in seconds.items()}

def few_end(rate):
    # the compile after the fourth takes longer than a first try allows
    taken = {n: 0.1 + 0.1 * n + 0.02 * rate**n for n in range(1, 9)}
    growth.quickest = lambda _, n, paced, too_long: None if taken[n] > too_long else (taken[n], {})
    seconds, within, slow = growth.measure(None, 2.0)
    return [sorted(seconds), slow, growth.judge(seconds, within, slow, 2.0, True)[0]]

def told(*answers):
    growth.measure = lambda *_: []
    rest = iter(answers)
    growth.judge = lambda *_: next(rest)
    return [*growth.judged(None, 2.0), len(list(rest))]

def whole(): pass
def cubic(): pass
def linear(): pass
counts = [1, 2, 4, 8, 16, 32, 48]
few = [1, 2, 3, 4, 5, 6, 7]
rough = {1: 0.37, 2: 0.68, 3: 1.08, 4: 1.56}  # of an exponential part, beside other work of the machine
flat = noisy({n: 0.1 + 0.02 * n for n in counts})
tiny = {n: 0.01 + 0.00003 * n**2 for n in counts}
mixed = noisy({n: 0.1 + 0.02 * n + 2e-6 * n**3 for n in (1, 2, 4, 8, 16, 32, 48, 72, 108)})
doubling = {1: 0.20, 2: 0.24, 4: 0.43, 6: 0.75, 7: 1.07, 8: 1.85, 9: 2.98}
early = noisy({n: 0.1 + 0.02 * n + 2e-6 * n**3 for n in (1, 2, 4, 8, 16, 32, 48)})
print(json.dumps({
    "cubic": rate(noisy({n: 0.05 + 0.004 * n + 2e-5 * n**3 for n in counts})),
    "square": rate(noisy({n: 0.05 + 0.004 * n + 1e-3 * n**2 for n in counts})),
    "linear": rate(noisy({n: 0.1 + 0.02 * n for n in counts})),
    "exponential": rate(noisy({n: 0.1 + 0.02 * n + 0.002 * 3**n for n in few})),
    "bound": growth.judge({1: 0.4}, {}, 2, 2.0),
    "near": growth.judge({1: 4.0}, {}, 2, 2.0),
    "slower": [growth.judge({1: 1.2}, {}, 2, 1.5, *search)[0] for search in ((), (True,))],
    "none": growth.judge({}, {}, 1, 2.0),
    "given_up": [growth.judge(times, {n: {} for n in times}, 5, 3.0, *search)[0] for times, *search in (
        (rough,), (rough, True), ({n: 0.9 * n for n in (1, 2, 3, 4)},),
    )],
    "flat": growth.judge(flat, {n: {} for n in flat}, None, 2.0),
    "tiny": growth.judge(tiny, {n: {} for n in tiny}, None, 2.0),
    "within": growth.judge(mixed, pass_of(mixed), None, 2.0),
    "spread": growth.judge(doubling, {n: {cubic.__code__: 0.2 * t} for n, t in doubling.items()}, None, 1.5),
    "doubling": rate(doubling),
    "shown": growth.may_hide(doubling, {n: {cubic.__code__: 0.2 * t} for n, t in doubling.items()}, 1.5),
    "small": growth.may_hide(early, pass_of(early), 2.0),
    "hidden": [growth.may_hide(times, {n: {} for n in times}, 2.0) for times in (
        {n: 0.05 + 0.01 * n + 3e-8 * n**3 for n in (1, 2, 4, 8, 16, 32, 64, 96, 144)},
        {n: 0.35 * n + 0.008 * n**3 for n in range(1, 7)},
        {n: 0.1 + 0.02 * n for n in counts},
        {n: 0.05 + 0.004 * n + 2e-5 * n**3 for n in counts},
        {1: 1.0, 2: 3.0},
    )],
    "few_end": [few_end(3.2), few_end(5.0)],
    "again": [told((False, "a"), (True, "b"), (False, "c")), told((False, "a"), (None, "b"), (None, "c"), (True, "d"))],
}))
"""


@pytest.fixture(scope="module")
def grown():
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(PROBE)!r})\n{SCRIPT}"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


@pytest.mark.parametrize(
    ("times", "form", "rate"),
    [("cubic", "power", 3), ("square", "power", 2), ("exponential", "factor", 3), ("doubling", "factor", 2)],
)
def test_the_rate_is_found_in_noise(grown, times, form, rate) -> None:
    assert grown[times] == [form, pytest.approx(rate, rel=0.1)]


def test_a_search_asks_for_more_than_a_slower_machine_takes_away(grown) -> None:
    assert grown["slower"] == [True, None]


def test_a_compile_that_was_given_up_shows_the_growth_that_rough_times_hide(grown) -> None:
    assert grown["given_up"] == [True, False, False]


def test_where_only_four_compiles_end_the_next_one_gets_more_time(grown) -> None:
    longer, given_up = grown["few_end"]
    assert longer == [[1, 2, 3, 4, 5], None, True]
    assert given_up[:2] == [[1, 2, 3], 4], "with three that end, nothing more is tried"


def test_a_growth_that_other_work_hid_is_measured_again(grown) -> None:
    assert grown["again"] == [[True, "b", 1], [False, "a", 1]]


def test_linear_times_do_not_grow(grown) -> None:
    form, rate = grown["linear"]
    assert form == "power" and rate < 1.3


def test_growth_that_no_single_function_shows_is_that_of_the_whole_compile(grown) -> None:
    grows, words = grown["spread"]
    assert grows and " in " not in words.partition("(")[0]
    assert grown["shown"] is False  # more repetitions are not worth their time


def test_a_function_that_grows_is_named_with_its_own_rate(grown) -> None:
    grows, words = grown["within"]
    assert grows and words.startswith("compile time grows with the power 3 of the repetitions in cubic (<string>:")
    grows, words = grown["flat"]
    assert not grows and " in " not in words


def test_times_that_stay_tiny_show_no_growth(grown) -> None:
    grows, words = grown["tiny"]
    assert not grows and words.startswith("compile time stays below 0.5 s (")


def test_few_measurements_give_a_bound(grown) -> None:
    grows, words = grown["bound"]
    assert grows and "faster than the power 3.3" in words
    assert grown["near"][0] is None, "two times so near to each other say nothing"
    assert grown["none"] == [None, "one compile takes more than 4 CPU seconds"]


def test_a_small_part_that_grows_fast_asks_for_more_repetitions(grown) -> None:
    small, mixed, linear, seen, few = grown["hidden"]
    assert small and mixed and grown["small"]
    assert not linear and not seen and not few
