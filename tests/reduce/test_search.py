"""The search knows neither graphs nor scripts: here it makes sets of numbers smaller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro_kit.reduce import Answer, Journal, RunOutcome
from repro_kit.reduce.proposing import each, narrow, one_by_one, rebasing, sweep
from repro_kit.reduce.reduction import CannotReduce, Neighbours, carry_out, judged
from repro_kit.reduce.search import CandidateSearch, SearchLimits

Numbers = frozenset[int]


class Needs:
    """Fails alike while all these numbers are there."""

    def __init__(self, needed: Numbers, jobs: int = 1) -> None:
        self.needed, self.jobs = needed, jobs

    def check(self, programs: Sequence[Numbers]) -> Iterator[Answer]:
        for program in programs:
            yield Answer(RunOutcome.FAILS_ALIKE if self.needed <= program else RunOutcome.PASSES)

    def adopt(self, answer: Answer) -> None:
        raise AssertionError("no answer here is equivalent")


class Dear(Needs):
    """Takes some seconds for each number."""

    def __init__(self, needed: Numbers, seconds: float) -> None:
        super().__init__(needed)
        self.seconds, self.sizes = seconds, list[int]()

    def check(self, programs: Sequence[Numbers]) -> Iterator[Answer]:
        for answer, program in zip(super().check(programs), programs, strict=True):
            self.sizes.append(len(program))
            yield replace(answer, seconds=self.seconds * len(program))


@dataclass
class Sets(CandidateSearch[Numbers, Numbers]):
    """Proposals are the numbers to drop."""

    rebased: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.program, self.measure = self.base, (len(self.base),)

    def render(self, program: Numbers) -> str:
        return str(sorted(program))

    def measured(self, program: Numbers, text: str) -> tuple[int, ...]:
        return (len(program),)

    def size(self, program: Numbers) -> int:
        return len(program)

    def rebase(self) -> Numbers:
        self.rebased += 1
        self.base = self.program
        return self.base

    def made_of(self, proposal: Any) -> tuple[Numbers, None]:
        return self.program - frozenset(proposal), None

    def take(self, made: None) -> None:
        pass


def search(count: int, needed: Numbers, jobs: int = 1) -> Sets:
    limits = SearchLimits(None, None, lambda: 0.0)
    return Sets(frozenset(range(count)), Needs(needed, jobs), Journal(), limits, lambda event: None)


SETS = st.frozensets(st.integers(0, 39), max_size=5)


@given(SETS, st.integers(1, 3))
def test_a_sweep_leaves_what_is_needed(needed: Numbers, jobs: int) -> None:
    numbers = search(40, needed, jobs)
    sweep(numbers, sorted(numbers.base), lambda dropped: dropped)
    assert numbers.program == needed


@given(SETS)
def test_single_acceptances_are_each_a_new_base(needed: Numbers) -> None:
    numbers = search(40, needed)
    one_by_one(numbers, lambda numbers: ({at} for at in sorted(numbers.program)))
    assert numbers.program == needed
    assert numbers.rebased == len(numbers.history) == 40 - len(needed)


def test_of_each_place_the_first_alternative_that_fails_alike_is_taken() -> None:
    numbers = search(6, frozenset({0, 3}))
    each(numbers, [[{0, 1}, {1}, {2}], [{3}], [{4, 5}]])
    assert numbers.program == {0, 2, 3}


@given(st.integers(1, 60), st.data(), st.integers(1, 3))
def test_a_prefix_is_cut_at_the_last_number_that_is_needed(count: int, data: st.DataObject, jobs: int) -> None:
    last = data.draw(st.integers(0, count - 1))
    numbers = search(count, frozenset({last}), jobs)
    narrow(numbers, 0, count, lambda _, at: [set(range(at, count))])
    assert numbers.program == set(range(last + 1))


@pytest.mark.parametrize(("needed", "rebased"), [({0, 1}, 0), ({0}, 1)])
def test_a_pass_without_progress_needs_no_new_base(needed: set[int], rebased: int) -> None:
    @rebasing
    def drop(numbers: Sets) -> None:
        numbers.first([{1}])

    numbers = search(2, frozenset(needed))
    numbers.run(drop)
    assert (numbers.name, numbers.rebased) == ("drop", rebased)


def test_a_reduction_ends_with_the_neighbours_of_its_result() -> None:
    numbers = search(9, frozenset({2, 5}))

    def around() -> Iterator[Neighbours[Numbers]]:
        removals = [judged(numbers, f"without {at}", numbers.program - {at}) for at in sorted(numbers.program)]
        yield Neighbours(tuple(removals), complete=True)

    result = carry_out(numbers, lambda: sweep(numbers, range(9), lambda dropped: dropped), around)
    assert (result.program, result.statements_before, result.statements_after) == ({2, 5}, 9, 2)
    assert (result.failed, result.runs, result.stopped) == (3, 3, "fixpoint")
    assert result.neighbours.minimal
    with pytest.raises(CannotReduce):
        carry_out(search(3, frozenset({7})), lambda: None, around)


def test_a_dear_original_is_made_smaller_before_its_rate_is_measured() -> None:
    needed = frozenset({2, 5})
    for seconds, sizes in ((1.0, [9, 2, 2, 2]), (0.1, [9, 9, 9, 2])):
        numbers = search(9, needed)
        numbers.oracle = dear = Dear(needed, seconds)
        result = carry_out(
            numbers, lambda: None, lambda: iter(()), find=partial(numbers.first, [numbers.base - needed])
        )
        assert dear.sizes == sizes
        assert (result.failed, result.runs, result.program) == (3, 3, needed)


def test_of_a_flaky_failure_an_answer_of_one_run_does_not_count() -> None:
    class Flaky(Dear):
        def check(self, programs: Sequence[Numbers]) -> Iterator[Answer]:
            for answer in super().check(programs):
                passes = len(self.sizes) % 2 == 0  # every other run
                yield replace(answer, outcome=RunOutcome.PASSES if passes else answer.outcome)

    needed = frozenset({2, 5})
    numbers = search(9, needed)
    numbers.oracle = flaky = Flaky(needed, 1.0)
    drop = partial(numbers.first, [numbers.base - needed])
    result = carry_out(numbers, drop, lambda: iter(()), find=drop)
    assert (flaky.sizes[:3], result.program) == ([9, 2, 9], needed)
    assert 0 < result.failed < result.runs and result.repeats > 1
