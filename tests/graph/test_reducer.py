"""The search, against oracles that need no torch."""

from __future__ import annotations

import math
import random
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro_kit.graph import Program, parse, render
from repro_kit.graph.edits import Edit
from repro_kit.graph.effects import Base
from repro_kit.graph.reducer import minify
from repro_kit.graph.search import Search
from repro_kit.graph.values import TensorRecord
from repro_kit.recipe import Recipe
from repro_kit.reduce import Answer, CannotReduce, Event, Journal, RunOutcome
from repro_kit.reduce.search import SearchLimits
from synthetic import Synthetic, build

PLACES = st.lists(st.integers(0, 59), min_size=1, max_size=4, unique=True).map(sorted)


def planted(places: list[int], count: int = 60, seed: int = 0, chain: bool = False) -> Program:
    return build(count, {at: f"bug{number}" for number, at in enumerate(places)}, seed, chain)


def bugs(places: list[int]) -> list[str]:
    return [f"bug{number}" for number in range(len(places))]


@settings(max_examples=40, deadline=None)
@given(places=PLACES, seed=st.integers(0, 50), jobs=st.integers(1, 3))
def test_culprits_anywhere_are_all_that_is_left(places, seed, jobs):
    oracle = Synthetic(bugs(places), jobs=jobs)
    result = minify(planted(places, seed=seed), oracle)
    assert oracle.fails(result.program)
    assert result.statements_after == len(places)
    assert result.stopped == "fixpoint"
    assert not result.program.stored, "no stored values are needed"


@settings(max_examples=30, deadline=None)
@given(places=PLACES)
def test_culprits_on_a_path_are_all_that_is_left(places):
    oracle = Synthetic(bugs(places), path=True)
    result = minify(planted(places, chain=True), oracle)
    assert oracle.fails(result.program)
    assert result.statements_after == len(places)


@settings(max_examples=40, deadline=None)
@given(count=st.integers(8, 30), culprits=st.integers(1, 8), seed=st.integers(0, 99), chain=st.booleans())
def test_every_statement_is_tried_alone_in_the_end(count, culprits, seed, chain):
    places = sorted(random.Random(seed).sample(range(count), culprits))
    result = minify(planted(places, count, seed, chain), Synthetic(bugs(places), path=chain))
    assert result.statements_after == culprits


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_every_proposal_is_judged(jobs: int):
    program = build(10, {})
    oracle = Synthetic(["absent"], jobs=jobs)
    search = Search(Base(program), oracle, Journal(), SearchLimits(None, None, time.monotonic), lambda event: None)
    assert search.first([Edit(outputs=(f"v{at}",)) for at in range(10)]) is None
    assert oracle.count == 10


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_equal_proposals_are_judged_once_and_answers_stay_with_theirs(jobs: int):
    program = build(10, {9: "bug0"})
    oracle = Synthetic(["bug0"], jobs=jobs)
    search = Search(Base(program), oracle, Journal(), SearchLimits(None, None, time.monotonic), lambda event: None)
    assert search.first([Edit(outputs=(name,)) for name in ("v1", "v1", "v9")]) == 2
    assert oracle.count == 2


@settings(max_examples=20, deadline=None)
@given(places=PLACES, seed=st.integers(0, 9))
def test_every_accepted_program_fails_alike_and_is_no_larger(places, seed):
    oracle = Synthetic(bugs(places))
    result = minify(planted(places, seed=seed), oracle)
    sizes = [step.statements for step in result.history]
    assert all(oracle.fails(step.program) for step in result.history)
    assert sizes == sorted(sizes, reverse=True)
    assert all(parse(render(step.program)) == step.program for step in result.history)


def test_no_program_is_judged_twice_after_the_first_runs():
    oracle = Synthetic(["bug0", "bug1"])
    minify(planted([7, 44]), oracle)
    texts = [render(it) for it in oracle.seen]
    assert len(texts) - len(set(texts)) == 2  # the original runs three times


def test_queries_grow_with_the_logarithm():
    counts = {}
    for count in (100, 1600):
        oracle = Synthetic(["bug0", "bug1"], path=True)
        program = build(count, {count // 3: "bug0", count * 2 // 3: "bug1"}, chain=True)
        counts[count] = minify(program, oracle).queries
    assert counts[1600] < 2 * counts[100]


@pytest.mark.parametrize("count", [300, 1600])
@pytest.mark.parametrize("culprits", [2, 4, 8])
@pytest.mark.parametrize("chain", [True, False])
def test_queries_stay_near_the_lower_bound(count: int, culprits: int, chain: bool):
    places = sorted(random.Random(count).sample(range(count), culprits))
    gap = (places[-1] - places[0]) / (culprits - 1)
    result = minify(planted(places, count, chain=chain), Synthetic(bugs(places), path=chain))
    assert result.statements_after == culprits
    assert result.queries <= 1.4 * (2 * math.log2(count) + culprits * (2 * math.log2(gap) + 1))


@settings(max_examples=20, deadline=None)
@given(places=PLACES, seed=st.integers(0, 50), chain=st.booleans())
def test_the_end_does_not_depend_on_the_number_of_jobs(places, seed, chain):
    program = planted(places, seed=seed, chain=chain)
    ends = [minify(program, Synthetic(bugs(places), path=chain, jobs=jobs)).program for jobs in (1, 2, 3)]
    assert ends[0] == ends[1] == ends[2]


def test_a_value_is_bypassed_by_one_further_up():
    class Wide(Synthetic):
        def record(self, program):
            known = super().record(program)
            return known | {f"v{at}": TensorRecord((6,), (1,)) for at in (3, 4)}

    program = planted([2, 6], 8, chain=True)
    assert minify(program, Wide(bugs([2, 6]), path=True)).statements_after == 2


def test_a_hint_finds_a_lone_culprit_at_once():
    oracle = Synthetic(["relu"])
    result = minify(build(500, {300: "relu"}), oracle, hints=["aten.relu.default"])
    assert result.statements_after == 1
    assert result.history[0].name == "guess"
    assert result.queries < 15


@pytest.mark.parametrize("hint", [None, "bug0"])
def test_a_dear_program_is_not_judged_as_a_whole_again(hint: str | None):
    class Training(Synthetic):
        def check(self, programs):
            for answer, program in zip(super().check(programs), programs, strict=True):
                yield replace(answer, seconds=2 + 0.7 * len(program.graph.statements))

    oracle = Training(["bug0"])
    inputs = (replace(planted([37]).inputs[0], requires_grad=True), planted([37]).inputs[1])
    recipe = Recipe(backward="randn", dynamic=True)
    result = minify(planted([37]).with_(inputs=inputs, recipe=recipe), oracle, hints=[hint] if hint else [])
    assert result.statements_after == 1
    sizes = [len(program.graph.statements) for program in oracle.seen]
    assert sizes[0] == 60 and max(sizes[1:]) <= (1 if hint else 15)
    assert (result.failed, result.runs) == (3, 3)


def test_a_hang_leaves_few_statements_within_its_deadline():
    """Each program that hangs takes half a minute, and the deadline is 150 s."""
    now = [0.0]

    class Hang(Synthetic):
        def check(self, programs):
            for answer in super().check(programs):
                now[0] += (seconds := 30.0 if answer.interesting else 1.0)
                yield replace(answer, seconds=seconds)

    program, oracle = planted([211], 376), Hang(["bug0"])
    result = minify(
        program, oracle, before=[Answer(RunOutcome.FAILS_ALIKE, 30.0)], deadline=150.0, clock=lambda: now[0]
    )
    assert result.statements_after <= 6 and not result.program.stored


def test_hints_that_mislead_do_no_harm():
    oracle = Synthetic(["bug0"])
    result = minify(build(100, {50: "bug0", 20: "relu"}), oracle, hints=["torch.relu", "nonsense", "cpp_fused_relu_0"])
    assert result.statements_after == 1


@pytest.mark.parametrize("die_at", [0, 1, 4, 17, 30])
def test_a_resumed_search_repeats_nothing_and_ends_alike(tmp_path: Path, die_at: int):
    program = planted([5, 20, 33, 50], seed=3)
    whole = Synthetic(bugs([0, 1, 2, 3]))
    expected = minify(program, whole)
    path = tmp_path / "journal.jsonl"
    killed = Synthetic(bugs([0, 1, 2, 3]), die_at=die_at)
    with pytest.raises(KeyboardInterrupt):
        minify(program, killed, journal=Journal(path))
    with path.open("ab") as file:
        file.write(b'{"key":"half a li')  # what a kill leaves behind
    resumed = Synthetic(bugs([0, 1, 2, 3]))
    result = minify(program, resumed, journal=Journal(path))
    assert (result.program, result.queries) == (expected.program, expected.queries)
    assert killed.count + resumed.count == whole.count


def test_a_damaged_line_of_a_journal_costs_its_own_answer(tmp_path: Path):
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    for key in ("first", "second", "third"):
        journal.put(key, Answer(RunOutcome.PASSES))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b'{"key": "second", "outcome": nonsense\n' + lines[2])
    again = Journal(path)
    assert [again.get(key) is not None for key in ("first", "second", "third")] == [True, False, True]


def test_after_a_damaged_line_nobody_knows_what_the_answers_are_about(tmp_path: Path):
    path = tmp_path / "journal.jsonl"
    Journal(path, about="this").put("first", Answer(RunOutcome.PASSES))
    Journal(path, about="that").put("second", Answer(RunOutcome.PASSES))
    path.write_bytes(path.read_bytes().replace(b'{"about":"that"}', b"damaged"))
    assert Journal(path, about="this").get("second") is None


@pytest.mark.parametrize("budget", [3, 4, 10, 25])
def test_a_budget_returns_the_best_so_far(budget: int):
    oracle = Synthetic(["bug0", "bug1"])
    result = minify(planted([10, 50]), oracle, budget=budget)
    assert result.stopped == "budget"
    assert oracle.count == result.queries == budget
    assert oracle.fails(result.program)


def test_a_deadline_returns_the_best_so_far():
    ticks = iter(range(10_000))
    result = minify(planted([10, 50]), Synthetic(["bug0", "bug1"]), deadline=20, clock=lambda: next(ticks))
    assert result.stopped == "deadline"
    assert result.queries > 3


@pytest.mark.parametrize("deadline", [1, 8])
def test_a_deadline_that_the_first_runs_use_up_still_leaves_time_to_drop_stored_values(deadline: int):
    oracle = Synthetic(["bug0"])
    program = planted([3])
    assert program.stored
    result = minify(program, oracle, deadline=deadline, clock=lambda: 3.0 * oracle.count)
    assert result.stopped == "deadline"
    assert not result.program.stored


def test_an_original_that_does_not_fail_is_refused():
    with pytest.raises(CannotReduce, match="did not fail as expected in 3 runs"):
        minify(planted([3]), Synthetic(["absent"]))


def test_a_failure_without_compute_is_refused():
    with pytest.raises(CannotReduce, match="does not depend on the graph"):
        minify(planted([3]), Synthetic([]))


def test_other_failures_are_kept_aside():
    class Other(Synthetic):
        def check(self, programs):
            for program, answer in zip(programs, super().check(programs), strict=True):
                other = answer.outcome is not RunOutcome.FAILS_ALIKE and len(program.graph.statements) == 1
                yield Answer(RunOutcome.FAILS_OTHERWISE, note="ValueError in x.py") if other else answer

    result = minify(planted([10, 40]), Other(["bug0", "bug1"]))
    assert [note for note, _ in result.others] == ["ValueError in x.py"]


def test_progress_is_told():
    events: list[Event] = []
    result = minify(planted([10]), Synthetic(["bug0"]), on_event=events.append)
    assert {event.kind for event in events[:-1]} == {"pass", "query", "accepted"}
    assert (events[-1].kind, events[-1].stopped) == ("end", "fixpoint")
    assert events[-1].statements == result.statements_after == 1
    assert sum(event.kind == "accepted" for event in events) == result.steps
