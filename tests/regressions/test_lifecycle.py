"""The state of a case follows from its verdicts, and from nothing else."""

from __future__ import annotations

import random

import pytest

from repro_kit.failure.signature import RunOutcome
from repro_kit.reduce.flaky import NO_RUNS, Tally
from repro_kit.regressions.lifecycle import Judged, State, judge, passes_needed, release_table, standing_of, tally_of
from repro_kit.regressions.plan import LinePlan, due_units, shard
from repro_kit.regressions.unit import UnitResult

OUTCOMES = {
    "F": (RunOutcome.FAILS_ALIKE, 1, 0),
    "P": (RunOutcome.PASSES, 0, 3),
    "p": (RunOutcome.PASSES, 0, 1),
    "m": (RunOutcome.FAILS_ALIKE, 3, 7),  # fails in some of its runs
    "o": (RunOutcome.FAILS_OTHERWISE, 0, 0),
    "x": (RunOutcome.CANNOT_TELL, 0, 0),
}


def verdicts(text: str) -> list[UnitResult]:
    return [UnitResult(f"1.{at}", *OUTCOMES[letter]) for at, letter in enumerate(text)]


def judged(*lines: str, claimed: int = 1) -> Judged:
    """The judgement on a case with these verdicts, one text for each line."""
    tally = sum((tally_of(verdicts(text)) for text in lines), NO_RUNS)
    return judge([standing_of(f"line {at}", verdicts(text), tally, claimed) for at, text in enumerate(lines)], tally)


@pytest.mark.parametrize(
    ("lines", "state"),
    [
        (("",), State.NEW),
        (("PPP",), State.NEW),  # it has never failed, so nothing was fixed
        (("FFF",), State.OPEN),
        (("FFP",), State.CLOSED),
        (("FFp",), State.OPEN),  # one pass may be luck
        (("FFppp",), State.CLOSED),
        (("FFP", "FF"), State.FIXED),
        (("FFP", ""), State.FIXED),  # a line that is tracked and was not run
        (("FFP", "PPP"), State.CLOSED),
        (("FFP", "PPo"), State.FIXED),
        (("FFPF",), State.REOPENED),
        (("FFPFP",), State.CLOSED),
        (("FFpF",), State.FLAKY),
        (("FPFPFPFPF",), State.FLAKY),
        (("FPFPFPFPFPPPPP",), State.FLAKY),
        (("F" + "PPPPPPPPF" * 4,), State.FLAKY),
        (("FPFPFPFPF" + "P" * 20,), State.CLOSED),
        (("FFFPPPFFFPPPFFF",), State.REOPENED),  # three passes on each of three builds are no chance
        (("xxx",), State.STALE),
        (("FFx",), State.OPEN),
        (("FFxxx",), State.STALE),
        (("FFPx",), State.CLOSED),
        (("FFPo",), State.FIXED),
        (("mm",), State.FLAKY),
        (("mmP",), State.FLAKY),
        (("mmPPPPPPP",), State.CLOSED),
        (("mm" * 12 + "PPPPP" + "m",), State.FLAKY),  # among so many builds, five that pass may be luck
        (("mm" * 12 + "P" * 20 + "m",), State.REOPENED),
    ],
)
def test_the_state_that_verdicts_show(lines: tuple[str, ...], state: State) -> None:
    assert judged(*lines).state is state


def test_the_evidence_names_the_range() -> None:
    assert "line 0: fails on 1.1, passes on 1.2" in judged("FFP", "FF").evidence
    assert "line 1: fails on 1.1" in judged("FFP", "FF").evidence
    assert judged("PPFF").evidence == "line 0: fails on 1.3 (began: passes on 1.1, fails on 1.2)"
    assert judged("FPF").evidence == "line 0: fails on 1.0, passes on 1.1, then passes on 1.1, fails on 1.2"


def test_what_the_bundle_asks_for_is_run() -> None:
    assert judged("FFP", claimed=9).state is not State.CLOSED
    assert judged("FFPPP", claimed=9).state is State.CLOSED


def test_a_rarer_failure_asks_for_more_passes() -> None:
    often = [passes_needed(Tally(failed, 10)) for failed in (10, 6, 3, 1)]
    assert often == sorted(often) and often[0] == 3 and often[-1] > 20


def simulated(rate: float, passes: int, failures: int, build: str, attempt: int, dice: random.Random) -> UnitResult:
    """What a worker returns for a case that fails at `rate`."""
    failed = passed = 0
    while True:
        runs = failed + passed
        wanted = (10 if passed and failures > 1 else failures) if failed else passes
        if runs >= wanted:
            break
        bad = dice.random() < rate
        failed, passed = failed + bad, passed + (not bad)
    outcome = RunOutcome.FAILS_ALIKE if failed else RunOutcome.PASSES
    return UnitResult(build, outcome, failed, passed, attempt=attempt)


def state_after_a_run(rates: list[float], dice: random.Random) -> tuple[Judged, dict[str, UnitResult]]:
    """Run all that is due on builds with these rates of failure."""
    builds = [f"1.{at}" for at in range(len(rates))]
    seen: dict[str, UnitResult] = {}
    wanted = {builds[0], builds[len(builds) // 2], builds[-1]}
    for _ in range(200):
        tally = tally_of([seen[build] for build in builds if build in seen])
        due = due_units(LinePlan("l", builds, wanted), seen, tally)
        if not due:
            break
        rate = rates[builds.index(due[0].build)]
        unit = simulated(rate, due[0].passes, due[0].failures, due[0].build, due[0].attempt, dice)
        seen[unit.build] = seen[unit.build] + unit if unit.build in seen else unit
    else:
        raise AssertionError("the plan never ends")
    ordered = [seen[build] for build in builds if build in seen]
    tally = tally_of(ordered)
    return judge([standing_of("l", ordered, tally)], tally), seen


def test_the_build_that_fixed_it_is_found_with_few_units() -> None:
    judged, seen = state_after_a_run([1.0] * 130 + [0.0] * 70, random.Random(1))
    assert judged == Judged(State.CLOSED, "l: fails on 1.129, passes on 1.130")
    assert len(seen) <= 12


def test_a_case_that_fails_now_and_then_is_hardly_ever_closed() -> None:
    dice = random.Random(7)
    states = [state_after_a_run([0.3] * 12, dice)[0].state for _ in range(300)]
    assert sum(state is State.CLOSED for state in states) <= 8  # 2.7 %
    assert sum(state is State.FLAKY for state in states) > 200


def test_a_fixed_case_that_failed_now_and_then_is_closed() -> None:
    dice = random.Random(8)
    states = [state_after_a_run([0.4] * 6 + [0.0] * 6, dice)[0].state for _ in range(100)]
    assert sum(state is State.CLOSED for state in states) > 60
    assert State.REOPENED not in states


def test_several_flips_are_all_narrowed() -> None:
    rates = [1.0] * 20 + [0.0] * 20 + [1.0] * 21
    judged, seen = state_after_a_run(rates, random.Random(2))
    assert judged.state is State.REOPENED
    table = release_table(sorted(seen.values(), key=lambda each: int(each.build[2:])))
    assert table.sentence == "It fails on 1.19, passes on 1.20, then passes on 1.39, fails on 1.40."
    assert table.confidence == 1.0


def test_what_cannot_be_judged_does_not_end_the_search() -> None:
    builds = [f"1.{at}" for at in range(9)]
    seen = {"1.0": UnitResult("1.0", *OUTCOMES["F"]), "1.8": UnitResult("1.8", *OUTCOMES["P"])}
    seen["1.4"] = UnitResult("1.4", *OUTCOMES["x"])
    plan = LinePlan("l", builds, {"1.0", "1.8"})
    assert [unit.build for unit in due_units(plan, seen, Tally(1, 1))] != ["1.4"]
    assert due_units(LinePlan("l", builds, {"1.4"}, bisect=False), seen, Tally(1, 1)) == []
    again = due_units(LinePlan("l", builds, {"1.4"}, bisect=False, retry={"1.4"}), seen, Tally(1, 1))
    assert [(unit.build, unit.attempt) for unit in again] == [("1.4", 1)]


def test_shards_hold_every_case_once_and_take_about_the_same_time() -> None:
    ids = [f"case {number}" for number in range(400)]
    seconds = {id: 1.0 + number % 7 for number, id in enumerate(ids)}
    shards = [shard(ids, seconds, number, 4) for number in range(1, 5)]
    assert sorted(id for part in shards for id in part) == sorted(ids)
    times = [sum(seconds[id] for id in part) for part in shards]
    assert max(times) < 1.1 * min(times)
    more = [shard([*ids, "another"], seconds, number, 4) for number in range(1, 5)]
    moved = sum(len(part - after) for part, after in zip(shards, more, strict=True))
    assert moved < 8
