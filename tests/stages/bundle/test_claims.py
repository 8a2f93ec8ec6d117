"""At packing: what earlier stages say is told where it is about this `repro.py`, and left out elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from repro_kit.bundle.facts import Facts
from repro_kit.case.stage_results import Capture, Environment, Observation, Reduction, TwinFound
from repro_kit.diagnosis.cell import Ablation, Cell
from repro_kit.failure.failure import Failure, Layer, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, Signature
from repro_kit.graph import parse
from repro_kit.recipe import LADDER, Recipe
from repro_kit.reduce.flaky import Tally
from repro_kit.repro_run.running import Check, ReproRun
from repro_kit.stages.bundle.claims import check_claims, earlier, shown_reduction
from repro_kit.stages.bundle.forms import CaseResults, ReproForm

WRONG = Signature(Kind.ACCURACY, difference="value", magnitude=1.0)
ENV = Environment("3.11", "python", "linux", "2.13.0")
PROGRAM = parse(
    "# repro-kit program 1\nimport torch\n\nRECIPE = {}\n"
    "\n\ndef graph(x):\n    relu = torch.relu(x)\n    return (relu,)\n"
    "\n\ndef calls():\n    return [(torch.ones(3),)]\n"
)


def cell(backend: str, *, same: bool, runs: int = 1, subject: str = "program", **changed: object) -> Cell:
    verdict = Verdict(Status.FAIL, Failure(Kind.ACCURACY)) if same else Verdict(Status.PASS)
    recipe = Recipe(backend=backend)
    return Cell(f"{backend} {subject}", True, recipe, verdict, same=same, runs=runs, subject=subject, changed=changed)


def ablation_of(
    first: str = "inductor", each: int = 1, on_script: tuple[Cell, ...] = (), **changes: object
) -> Ablation:
    cells = [cell(it, same=LADDER.index(it) >= LADDER.index(first), runs=each) for it in LADDER]
    made = Ablation("program", (*cells, *on_script), Layer.INDUCTOR, "Inductor is at fault.", torch="2.13.0")
    return replace(made, **{"failure": WRONG.summary(), **changes})


def candidate_of(ablation: Ablation | None, level: str = "program", name: str = "minify/best.py") -> ReproForm:
    facts = Facts(WRONG, None, ENV, ablation)
    if level == "script":
        return ReproForm(facts, 60.0, "no graph fails alone")
    return ReproForm(facts, 60.0, "", Path("x.repro") / name, PROGRAM, name.startswith("minify"))


def known_of(candidate: ReproForm, reduction: Reduction | None = None) -> CaseResults:
    seen = Observation((), 1, None, False, 1.0, 0, None, None)
    return CaseResults(seen, None, None, reduction, candidate.facts)


def check_of(same: int = 5, runs: int = 5, before: Tally | None = None) -> Check:
    outcomes = [RunOutcome.FAILS_ALIKE if at < same else RunOutcome.FAILS_OTHERWISE for at in range(runs)]
    made = [ReproRun(Verdict(Status.FAIL), "", outcome=outcome) for outcome in outcomes]
    return Check(tuple(made), ReproRun(Verdict(Status.PASS), ""), earlier=before or Tally())


def dropped(candidate: ReproForm, check: Check | None = None, fails_with: tuple[str, ...] = ()) -> tuple[str, ...]:
    found = check_claims(candidate, known_of(candidate), check or check_of(), lambda backend: backend in fails_with)
    assert (found.form.facts.ablation is None) is bool(found.dropped) or candidate.facts.ablation is None
    assert found.form.facts.layer is None or not found.dropped
    return found.dropped


def test_what_is_about_it_is_told() -> None:
    assert dropped(candidate_of(ablation_of())) == ()
    assert dropped(candidate_of(None)) == ()


@pytest.mark.parametrize(
    ("ablation", "why"),
    [
        (ablation_of(failure="hang in x.py:f"), "about another failure"),
        (ablation_of(torch="2.12.0"), "made with torch 2.12.0"),
    ],
)
def test_an_ablation_of_something_else_is_left_out(ablation: Ablation, why: str) -> None:
    (sentence,) = dropped(candidate_of(ablation))
    assert why in sentence


def test_the_failure_of_the_captured_graph_is_the_failure_of_the_script_in_another_form() -> None:
    of_graph = replace(WRONG, magnitude=0.5)
    judged = ablation_of(failure=of_graph.summary())
    of_script = candidate_of(judged, "script")
    known = replace(known_of(of_script), capture=Capture("program", signature=of_graph))
    found = check_claims(of_script, known, check_of(), lambda backend: False)
    (sentence,) = found.dropped
    assert "ran on a graph of the script" in sentence


def test_a_reduced_program_that_fails_with_the_backend_before_contradicts_the_layer() -> None:
    reduced = candidate_of(ablation_of())
    (sentence,) = dropped(reduced, fails_with=("aot_eager_decomp_partition",))
    assert "fails alike with backend 'aot_eager_decomp_partition'" in sentence
    assert dropped(reduced, fails_with=("eager",)) == ()
    captured = candidate_of(ablation_of(), name="capture/program.py")  # that is what the cells were run on
    assert dropped(captured, fails_with=("aot_eager_decomp_partition",)) == ()


def test_no_claim_holds_where_the_check_itself_is_against_it() -> None:
    known = known_of(candidate := candidate_of(ablation_of()))
    checked = check_claims(candidate, known, check_of(), lambda _: True, against="repro.py passes without CXX")
    assert checked.form.facts.layer is None and "since repro.py passes without CXX" in checked.dropped[0]


def test_a_program_whose_recipe_does_less_than_the_blamed_backend_contradicts_it() -> None:
    candidate = candidate_of(ablation_of())
    lower = replace(candidate, program=PROGRAM.with_(recipe=Recipe(backend="aot_eager")))
    (sentence,) = dropped(lower)
    assert "which does less than 'inductor'" in sentence


def test_cells_that_passed_once_say_little_of_a_flaky_failure() -> None:
    flaky = check_of(5, 10)
    (sentence,) = dropped(candidate_of(ablation_of()), flaky)
    assert f"ran less than {flaky.repeats} times" in sentence and f"--repeat {flaky.repeats}" in sentence
    assert dropped(candidate_of(ablation_of(each=flaky.repeats)), flaky) == ()
    by_earlier_runs = check_of(1, 1, Tally(6, 10))
    assert dropped(candidate_of(ablation_of()), by_earlier_runs)


@pytest.mark.parametrize(
    ("on_script", "left_out"),
    [
        ((), True),
        ((cell("inductor", same=True, subject="script"),), False),
        ((cell("inductor", same=False, subject="script"),), True),
        (
            (
                cell("inductor", same=True, subject="script"),
                cell("aot_eager_decomp_partition", same=True, subject="script"),
            ),
            True,
        ),
    ],
)
def test_an_ablation_of_a_graph_counts_for_the_script_where_that_agrees(
    on_script: tuple[Cell, ...], left_out: bool
) -> None:
    assert bool(dropped(candidate_of(ablation_of(on_script=on_script), "script"))) is left_out


def test_runs_of_the_stages_before_are_evidence_for_what_they_ran() -> None:
    ablation = ablation_of(on_script=(cell("inductor", same=True, subject="script", runs=2),), failed=5, runs=5)
    reduction = Reduction(3, 1, 9, 1.0, True, True, failed=3, runs=3)
    reduced = candidate_of(ablation)
    assert earlier(reduced, known_of(reduced, reduction)) == Tally(8, 8)
    captured = candidate_of(ablation, name="capture/program.py")
    assert earlier(captured, known_of(captured, reduction)) == Tally(5, 5)
    script = candidate_of(ablation, "script")
    assert earlier(script, known_of(script, reduction)) == Tally(1, 2)  # it passed, then failed
    flaky = replace(reduction, failed=4, runs=10)
    assert earlier(script, known_of(script, flaky)) == Tally(5, 12)
    assert earlier(script, known_of(candidate_of(None, "script"))) == Tally()


def test_a_reduction_that_its_deadline_ended_says_so() -> None:
    reduction = Reduction(3, 3, 9, 1.0, True, True)
    for stopped, told in (("deadline", True), ("fixpoint", False)):
        form = replace(
            candidate_of(None), facts=replace(candidate_of(None).facts, reduction=replace(reduction, stopped=stopped))
        )
        assert ("Its deadline ended the reduction." in form.minimized) is told


@pytest.mark.parametrize(
    ("before", "words"), [(1, "It has 1 operator, not fewer"), (2, "Reduced from 2 to 1 operator")]
)
def test_only_what_became_smaller_is_called_reduced(before: int, words: str) -> None:
    facts = replace(candidate_of(None).facts, reduction=Reduction(before, 1, 9, 1.0, True, True))
    assert replace(candidate_of(None), facts=facts).minimized.startswith(words)


def test_other_failures_that_the_reduction_met_stay_on_the_machine() -> None:
    """They are about larger programs than the one in the bundle."""
    met = Reduction(9, 1, 9, 1.0, True, True, others=("KeyError: 'plover'",))
    form = replace(candidate_of(None), facts=replace(candidate_of(None).facts, reduction=met))
    assert shown_reduction(form, None) == replace(met, others=())


def test_only_the_end_of_the_reduction_has_its_twin_and_is_minimal() -> None:
    twin = TwinFound("`x` is float64", "")
    reduction = Reduction(3, 1, 9, 1.0, True, True, minimal=True, twin=twin)
    facts = replace(candidate_of(None).facts, reduction=reduction)
    best = replace(candidate_of(None), facts=facts)
    before = replace(best, path=Path("x.repro/minify/history/003.py"))  # of the same size
    assert (best.twin, before.twin) == (twin, None)
    assert "can be removed" in best.minimized and "can be removed" not in before.minimized
