"""The search, against oracles that need no torch."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro_kit.model.recipe import Autocast, ProcessGroup, Recipe
from repro_kit.program import Data, Program, TensorInput, parse, render, size
from repro_kit.program.analysis import Base
from repro_kit.program.program_edits import Outputs
from repro_kit.program.value_records import TensorRecord
from repro_kit.reduce import Answer, CannotReduce, Event, Journal, RunOutcome, minify
from repro_kit.reduce.candidate_search import SearchLimits
from repro_kit.reduce.search_state import Search
from synthetic import Synthetic, build, op_name

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
    assert search.first([[Outputs((f"v{at}",))] for at in range(10)]) is None
    assert oracle.count == 10


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_equal_proposals_are_judged_once_and_answers_stay_with_theirs(jobs: int):
    program = build(10, {9: "bug0"})
    oracle = Synthetic(["bug0"], jobs=jobs)
    search = Search(Base(program), oracle, Journal(), SearchLimits(None, None, time.monotonic), lambda event: None)
    assert search.first([[Outputs((name,))] for name in ("v1", "v1", "v9")]) == 2
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


def test_the_fewest_ranks_in_one_process_are_kept_that_fail():
    class NeedsRanks(Synthetic):
        def fails(self, program):
            return super().fails(program) and program.recipe.group is not None and program.recipe.group.size >= 2

    program = planted([3], 10).with_(recipe=Recipe(group=ProcessGroup(8, backend="gloo", rank=5)))
    result = minify(program, NeedsRanks(["bug0"]))
    assert result.program.recipe == Recipe(group=ProcessGroup(2, rank=1))


def test_settings_and_inputs_become_plain():
    recipe = Recipe(
        mode="max-autotune",
        dynamic=True,
        backward="sum",
        autocast=Autocast(),
        group=ProcessGroup(4, backend="gloo"),
        config={"inductor.a": 1, "inductor.b": 2},
    )
    program = planted([10]).with_(recipe=recipe, preamble="NEEDED = 1\n\n\ndef unneeded():\n    return 2")
    inputs = (replace(program.inputs[0], requires_grad=True, parameter=True), program.inputs[1])

    class Needs(Synthetic):
        def fails(self, program):
            return super().fails(program) and "inductor.b" in program.recipe.config and "NEEDED" in program.preamble

    result = minify(program.with_(inputs=inputs), Needs(["bug0"]))
    assert result.program.recipe == Recipe(config={"inductor.b": 2})
    assert result.program.preamble == "NEEDED = 1"
    assert not any(isinstance(input_, TensorInput) and input_.requires_grad for input_ in result.program.inputs)


def test_contexts_go_one_by_one_and_keep_what_they_need():
    recipe = Recipe(contexts=("torch.device('cpu')", "Mode(2)", "other()"), compiled_autograd=True, warm_caches=True)
    program = planted([10]).with_(recipe=recipe, preamble="class Mode:\n    pass\n\n\ndef other():\n    pass")

    class Needs(Synthetic):
        def fails(self, program):
            return super().fails(program) and "Mode(2)" in program.recipe.contexts and "Mode" in program.preamble

    result = minify(program, Needs(["bug0"]))
    assert result.program.recipe == Recipe(contexts=("Mode(2)",))
    assert result.program.preamble == "class Mode:\n    pass"


@pytest.mark.parametrize(("least", "left"), [(1, None), (2, 4)])
def test_threads_stay_where_one_is_not_enough(least: int, left: int | None):
    class Needs(Synthetic):
        def fails(self, program):
            machine_has = 8
            return super().fails(program) and (program.recipe.threads or machine_has) >= least

    result = minify(planted([10]).with_(recipe=Recipe(threads=4)), Needs(["bug0"]))
    assert result.program.recipe.threads == left


def test_progress_is_told():
    events: list[Event] = []
    result = minify(planted([10]), Synthetic(["bug0"]), on_event=events.append)
    assert {event.kind for event in events[:-1]} == {"pass", "query", "accepted"}
    assert (events[-1].kind, events[-1].stopped) == ("end", "fixpoint")
    assert events[-1].statements == result.statements_after == 1
    assert sum(event.kind == "accepted" for event in events) == result.steps


@pytest.mark.parametrize(("memory", "left"), [(None, 700), (1 << 30, 875)])
def test_a_size_that_must_be_large_is_bisected_unless_memory_is_at_stake(memory: int | None, left: int):
    class NeedsMuch(Synthetic):
        def fails(self, program: Program) -> bool:
            return super().fails(program) and any(input_.shape[0] >= 700 for input_ in program.inputs)

    program = planted([3]).with_(recipe=Recipe(memory=memory))
    inputs = tuple(TensorInput(input_.name, Data("randn", (1750, 3))) for input_ in program.inputs)
    result = minify(program.with_(inputs=inputs), NeedsMuch(["bug0"]))
    assert [input_.shape for input_ in result.program.inputs] == [(left, 1)]
    assert result.queries < 60


def test_sizes_shrink_as_far_as_the_failure_allows():
    class NeedsThree(Synthetic):
        def fails(self, program: Program) -> bool:
            shapes = [input_.shape or () for input_ in program.inputs if isinstance(input_, TensorInput)]
            return super().fails(program) and any(shape[-1:] == (3,) for shape in shapes)

        def fake_valid(self, programs):
            return [all(input_.shape != (1, 1) for input_ in program.inputs) for program in programs]

    oracle = NeedsThree(["bug0"])
    result = minify(planted([7]), oracle)
    shapes = [input_.shape for input_ in result.program.inputs if isinstance(input_, TensorInput)]
    assert shapes == [(1, 3)]
    assert oracle.fails(result.program)


BODIES = """import torch

RECIPE = {}


def body_0(a, b):
    c = torch.fine(a)
    d = torch.bug(c)
    e = d + b
    return (e, b)


def body_1(a, b):
    c = torch.fine(a)
    return (c, b)


def graph(p, x, y):
    z = torch.fine(x)
    cond = torch.ops.higher_order.cond(p, body_0, body_1, (z, y))
    one = cond[0]
    two = cond[1]
    out = one * two
    return (out,)


def calls():
    p = torch.randn(2, 3)
    x = torch.randn(2, 3)
    y = torch.randn(2, 3)
    return [(p, x, y)]
"""


class InBodies(Synthetic):
    """Fails when all of `bugs` stand anywhere in the program; with another form outside of `cond`."""

    adopted = 0

    def check(self, programs: Sequence[Program]) -> Iterator[Answer]:
        for program in programs:
            text = render(program)
            same = "cond(" in text or self.adopted
            outcome = RunOutcome.FAILS_ALIKE if same else RunOutcome.FAILS_OTHERWISE
            yield Answer(outcome if all(bug in text for bug in self.bugs) else RunOutcome.PASSES, failure={})

    def adopt(self, answer: Answer) -> None:
        self.adopted += 1


def test_a_body_that_fails_alone_takes_the_place_of_its_operator() -> None:
    oracle = InBodies(["torch.bug"])
    result = minify(parse(BODIES), oracle)
    assert [statement.text for statement in result.program.graph.statements] == ["torch.bug(c)"]
    assert oracle.adopted == 1


def test_an_operator_that_is_needed_keeps_one_statement_in_one_body() -> None:
    result = minify(parse(BODIES), InBodies(["torch.bug", "cond("]))
    assert result.statements_after == 2
    (body,) = result.program.bodies
    assert [statement.text for statement in body.statements] == ["torch.bug(a)"]
    assert len(body.params) == 1
    assert size(result.program) == 2


class Together(Synthetic):
    """Fails while the bug is there, and "left" and "right" are both there or both gone."""

    def fails(self, program: Program) -> bool:
        names = {op_name(statement) for statement in program.graph.statements}
        return "bug" in names and ("left" in names) == ("right" in names)


def test_two_statements_that_can_only_go_together_go() -> None:
    text = BODIES.partition("def body_0")[0] + (
        "def graph(x):\n    a = torch.left(x)\n    b = torch.bug(x)\n    c = torch.right(x)\n    return (a, b, c)\n\n\n"
        "def calls():\n    x = torch.randn(2, 3)\n    return [(x,)]\n"
    )
    result = minify(parse(text), Together([]))
    assert [statement.text for statement in result.program.graph.statements] == ["torch.bug(x)"]


class Halved(Synthetic):
    """Fails while the bug gets one input of half precision, and another one."""

    def fails(self, program: Program) -> bool:
        dtypes = [input_.dtype for input_ in program.inputs if isinstance(input_, TensorInput)]
        found = {op_name(statement) for statement in program.graph.statements}
        return "bug" in found and "torch.float16" in dtypes and len(set(dtypes)) == 2


def test_inputs_are_of_the_default_dtype_where_they_can_be() -> None:
    text = BODIES.partition("def body_0")[0] + (
        "def graph(x, y):\n    b = torch.bug(x, y)\n    return (b,)\n\n\ndef calls():\n"
        "    x = torch.randn(2, dtype=torch.float16)\n    y = torch.randn(3, dtype=torch.float64)\n"
        "    return [(x, y)]\n"
    )
    lines = minify(parse(text), Halved([])).program.inputs
    assert [line.dtype for line in lines if isinstance(line, TensorInput)] == ["torch.float16", None]
