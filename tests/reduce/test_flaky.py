"""Failures that come and go: how often the original and the candidates are run, and how sure that makes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro_kit.graph import Program, render
from repro_kit.graph.reducer import minify
from repro_kit.reduce import Answer, CannotReduce, RunOutcome
from repro_kit.reduce.flaky import MISSED, chance_to_miss, repeats_for
from synthetic import Synthetic, build

LONE = build(40, {25: "bug0"})


class Flaky(Synthetic):
    """Fails at a rate, by a seeded coin; `instead` is the answer of a run that does not show the failure."""

    def __init__(self, rate: float, seed: int, instead: RunOutcome = RunOutcome.PASSES, jobs: int = 1) -> None:
        super().__init__(["bug0"], jobs=jobs)
        self.rate, self.rng, self.instead = rate, random.Random(seed), instead

    def check(self, programs: Sequence[Program]) -> Iterator[Answer]:
        for answer in super().check(programs):
            luck = answer.outcome is not RunOutcome.FAILS_ALIKE or self.rng.random() < self.rate
            yield answer if luck else Answer(self.instead)


@given(runs=st.integers(1, 10), data=st.data())
def test_repeats_are_the_fewest_that_are_sure_enough(runs: int, data: st.DataObject) -> None:
    failed = data.draw(st.integers(1, runs))
    repeats = repeats_for(failed, runs)
    if failed == runs:
        assert repeats == 1
    else:
        assert chance_to_miss(failed, runs, repeats) <= MISSED < chance_to_miss(failed, runs, repeats - 1)


def test_the_chance_holds_for_failures_of_every_rate() -> None:
    """Draw a rate, measure it as `minify` does; how often are the repeats that follow from that not enough?"""
    rng = random.Random(0)
    missed = judged = 0
    for _ in range(20_000):
        rate = rng.random()
        failed = sum(rng.random() < rate for _ in range(10))
        if 0 < failed < 10:
            judged += 1
            missed += all(rng.random() >= rate for _ in range(repeats_for(failed, 10)))
    assert 0.02 < missed / judged < MISSED


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.8])
def test_a_flaky_failure_is_measured_and_reduced(rate: float) -> None:
    reached: list[bool] = []
    for seed in range(20):
        oracle = Flaky(rate, seed)
        try:
            result = minify(LONE, oracle)
        except CannotReduce:
            continue  # it was not seen in three runs
        assert oracle.fails(result.program)
        if result.runs == 3:
            assert (result.failed, result.repeats, result.missed) == (3, 1, 0)
            continue
        assert result.runs == 10
        assert 0 < result.missed <= MISSED
        reached.append(result.statements_after == 1)
    assert sum(reached) >= 0.8 * len(reached) > 5


def test_answers_that_are_none_say_nothing_of_the_rate() -> None:
    class Broken(Synthetic):
        def check(self, programs: Sequence[Program]) -> Iterator[Answer]:
            for answer in super().check(programs):
                yield Answer(RunOutcome.CANNOT_TELL) if self.count == 2 else answer

    result = minify(LONE, Broken(["bug0"]))
    assert (result.failed, result.runs, result.repeats) == (2, 2, 1)


@pytest.mark.parametrize("jobs", [1, 3])
def test_what_is_invalid_is_not_run_again(jobs: int) -> None:
    class Picky(Flaky):
        def check(self, programs: Sequence[Program]) -> Iterator[Answer]:
            for program, answer in zip(programs, super().check(programs), strict=True):
                yield answer if self.fails(program) else Answer(RunOutcome.INVALID)

    oracle = Picky(0.5, seed=1, jobs=jobs)
    result = minify(LONE, oracle)
    invalid = [render(it) for it in oracle.seen if not oracle.fails(it)]
    assert result.repeats > 1
    assert len(invalid) == len(set(invalid))


def test_another_failure_among_the_runs_is_kept_aside() -> None:
    result = minify(LONE, Flaky(0.5, seed=1, instead=RunOutcome.FAILS_OTHERWISE))
    assert result.repeats > 1
    assert result.statements_after == 1


def test_the_deadline_ends_the_runs_of_a_candidate() -> None:
    oracle = Flaky(0.3, seed=4)
    result = minify(LONE, oracle, deadline=15.0, clock=lambda: float(oracle.count))
    assert result.stopped == "deadline"
    assert (result.runs, oracle.count) == (10, 15)
