"""Outages, twins and numbers with noise, from results that are written by hand."""

from __future__ import annotations

from itertools import combinations

import pytest

from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, Signature
from repro_kit.regressions.groups import CaseFacts
from repro_kit.regressions.lifecycle import VerdictFlip
from repro_kit.regressions.metrics import metrics_in, rank_test, worse
from repro_kit.regressions.release import Batch, Whose, outages, release_of, whose, with_missing
from repro_kit.regressions.unit import UnitResult

ORDER = ["1", "2", "3", "4", "5"]


def result(build: str, letter: str) -> UnitResult:
    outcome = {"F": RunOutcome.FAILS_ALIKE, "P": RunOutcome.PASSES, "x": RunOutcome.CANNOT_TELL}[letter]
    return UnitResult(build, outcome, letter == "F", letter == "P")


@pytest.mark.parametrize(
    ("twins", "owner"),
    [
        ("PPPP", Whose.TORCH),
        ("PPFF", Whose.APP),
        ("P  F", Whose.APP),  # it was run on few days
        ("FFFF", Whose.UNKNOWN),  # the stable build has the failure since long
        ("  FF", Whose.UNKNOWN),  # nothing is known of the days before
        ("PPxx", Whose.UNKNOWN),
        ("PPxP", Whose.TORCH),
        ("", Whose.UNKNOWN),
    ],
)
def test_whose_a_regression_is(twins: str, owner: Whose) -> None:
    flip = VerdictFlip(result("2", "P"), result("3", "F"))
    seen = {build: result(build, letter) for build, letter in zip(ORDER, twins, strict=False) if letter != " "}
    assert whose(flip, ORDER, seen).whose is owner


@pytest.mark.parametrize(
    ("cases", "silent", "attempt", "is_outage"),
    [(40, 10, 0, True), (40, 9, 0, False), (3, 3, 0, True), (2, 2, 0, False), (40, 40, 2, True), (40, 40, 3, False)],
)
def test_many_that_show_nothing_at_once_are_an_outage(cases: int, silent: int, attempt: int, is_outage: bool) -> None:
    batch = Batch("nightly cpu", "1", attempt, cases, silent)
    assert bool(outages([batch])) is is_outage


def test_a_case_that_is_no_longer_run_has_missing_results() -> None:
    seen = with_missing("nightly cpu", [result("1", "P"), result("2", "P")], ORDER, ["1", "3", "5"])
    assert [(each.build, each.outcome.value) for each in seen[2:]] == [("3", "infra"), ("5", "infra")]
    assert with_missing("nightly cpu", [], ORDER, ORDER) == []  # it was never run there


def by_hand(old: list[float], new: list[float]) -> float:
    """The probability of the rank test, by every way to choose which samples are the new ones."""
    every = [*old, *new]
    rank = {value: sum(other < value for other in every) + (every.count(value) + 1) / 2 for value in every}
    seen = sum(rank[value] for value in new)
    ways = [sum(rank[every[at]] for at in chosen) for chosen in combinations(range(len(every)), len(new))]
    return sum(total >= seen for total in ways) / len(ways)


@pytest.mark.parametrize(
    ("old", "new"),
    [([1, 2, 3, 4], [5, 6, 7]), ([1, 2, 2, 3], [2, 3, 3]), ([5, 5, 5], [5, 5]), ([7, 8, 9], [1, 2]), ([1, 9], [3])],
)
def test_the_rank_test_is_exact_also_with_equal_values(old: list[float], new: list[float]) -> None:
    assert rank_test(old, new) == pytest.approx(by_hand(old, new))


def numbers(*values: float) -> list[UnitResult]:
    return [UnitResult(str(at), passed=1, metrics=(("seconds", value),)) for at, value in enumerate(values)]


def test_a_number_is_worse_by_a_threshold_and_the_rank_test() -> None:
    steady = [10, 11, 9, 10, 12, 10, 9, 11, 10, 10]
    (change,) = worse(numbers(*steady, 15, 16, 15, 17))
    assert (change.before, change.after, change.old) == ("9", "10", 10) and change.chance <= 0.001
    assert worse(numbers(*steady, 15, 16)) == []  # two may be chance
    assert worse(numbers(*steady, 11.5, 11.4, 11.6, 11.5, 11.4)) == []  # below the threshold
    assert worse(numbers(*steady, 15, 16, 15, 17, *steady)) == []  # it is over
    assert [each.new for each in worse(numbers(*[0] * 10, *[3] * 4))] == [3]


def test_what_a_case_prints_is_measured() -> None:
    output = "x\nMETRIC compile_seconds 12.5\nMETRIC graph_breaks 3\r\n METRIC no 1\nMETRIC nan nan\nMETRIC late 1 2\n"
    assert metrics_in(output) == (("compile_seconds", 12.5), ("graph_breaks", 3.0))


def test_two_wrong_results_are_told_apart() -> None:
    wrong = Signature(Kind.ACCURACY, difference="value")
    one, two = (CaseFacts(wrong, culprit=f"#1 aten.{name}.default") for name in ("relu", "amax"))
    assert one.told != two.told and "relu" in one.told
    assert CaseFacts(wrong, title="wrong gradient of avg_pool2d").told == "wrong gradient of avg_pool2d"
    assert release_of("2.16.0.dev20261101+cpu") == "2.16" and release_of("custom build") == ""
