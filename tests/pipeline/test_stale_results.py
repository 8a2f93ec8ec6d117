"""Results of a stage count for the failure that they were made for, and for no other one."""

import sys
from pathlib import Path

import pytest

from repro_kit.case.case import Case, StageRecord, Subject
from repro_kit.case.stage_results import Capture, Environment, Observation, ObservedFailure, Reduction
from repro_kit.failure.failure import Failure, Status
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature
from repro_kit.options.stages import AblateOptions
from repro_kit.pipeline.run import REGISTRY
from repro_kit.regressions.build import Build, Judgement, Mark
from repro_kit.regressions.search_state import BisectState
from repro_kit.session.oracles import open_oracle
from repro_kit.stages.ablate import stage
from repro_kit.stages.bundle.forms import candidates, results_of
from repro_kit.stages.bundle.further_runs import bisected
from repro_kit.ui import SilentUi

WRONG = Signature(Kind.ACCURACY, difference="value", magnitude=1.0)
OTHER = Signature(Kind.COMPILE_ERROR, ("InductorError",), "no such thing")
PROGRAM = """# repro-kit program 1
import torch

RECIPE = {}


def graph(x):
    mul = torch.mul(x, x)
    return (mul,)


def calls():
    return [(torch.ones(3),)]
"""


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """A case of a wrong result, captured and reduced."""
    (tmp_path / "a.py").write_text("import torch\n")
    made = Case.create(tmp_path / "a.repro", Subject("script", ("a.py",), str(tmp_path), sys.executable), "2026-01-01")
    made.update(signature=WRONG)
    observed = tuple(ObservedFailure(Failure(it.kind), it) for it in (WRONG, OTHER))
    made.write("observe/run.json", Observation(("a.py",), 0, None, False, 1.0, 0, None, "2", observed))
    made.write("env.json", Environment("3.11", sys.executable, "linux", "2.13.0"))
    made.record(StageRecord("observe", "done"))
    (made.path / "capture").mkdir()
    (made.path / "capture/program.py").write_text(PROGRAM)
    made.write("capture/capture.json", Capture("program", "dynamo", 1, "0/0", 1, signature=WRONG, fresh=True))
    made.record(StageRecord("capture", "done", about=made.about("capture")))
    (made.path / "minify").mkdir()
    (made.path / "minify/best.py").write_text(PROGRAM)
    made.write("minify/minify.json", Reduction(1, 1, 4, 1.0, True, True))
    made.record(StageRecord("minify", "done", about=made.about("minify")))
    return made


def test_what_is_about_the_failure_is_used(case: Case) -> None:
    assert stage.planned(case, AblateOptions(), SilentUi()).cells.subject == "program"
    levels = [candidate.level for candidate in candidates(case, results_of(case)) if candidate.whole]
    assert levels == ["program", "program", "script"], "as a person writes it, with every name, and the script"


@pytest.mark.parametrize("skipped", [True, False], ids=["capture was skipped", "the records claim to be done"])
def test_a_program_of_another_symptom_is_neither_ablated_nor_packed(case: Case, skipped: bool) -> None:
    if skipped:  # as the pipeline does it for a symptom that is counted over a run
        case.record(StageRecord("capture", "skipped"))
    case.update(signature=Signature(Kind.RECOMPILES, message="4 recompiles, more than 3"))
    assert stage.planned(case, AblateOptions(), SilentUi()).cells.subject == "script"
    told = results_of(case)
    assert (told.capture, told.reduction) == (None, None)
    assert [candidate.level for candidate in candidates(case, told)] == ["script"]


def test_another_failure_of_the_same_run_does_not_take_the_first_ones_results(case: Case) -> None:
    case.update(signature=OTHER, failure_index=1)
    assert not case.is_current("capture")
    assert results_of(case).capture is None


def test_another_program_makes_its_reduction_stale(case: Case) -> None:
    (case.path / "capture/program.py").write_text(PROGRAM.replace("mul", "add"))
    assert case.is_current("capture")
    assert results_of(case).reduction is None


def test_a_stage_that_only_looks_at_files_left_behind_goes_on_as_if_there_were_none(case: Case) -> None:
    case.record(StageRecord("capture", "failed"))
    assert not REGISTRY["minify"].pointless(case)
    with open_oracle(case) as oracle:
        assert oracle.how == "fork"  # `fresh` of the stale capture does not count


@pytest.mark.parametrize(("signature", "told"), [(WRONG, "It broke in b."), (OTHER, ""), (None, "")])
def test_a_bisection_of_another_failure_is_not_told(case: Case, signature: Signature | None, told: str) -> None:
    builds = tuple(Build(name, "nightly", name) for name in ("a", "b"))
    state = BisectState(1, "about", builds, "torch", "nightly", "repro.py", good="a", bad="b", signature=signature)
    for name, mark in (("a", Mark.GOOD), ("b", Mark.BAD)):
        state = state.with_judgement(Judgement(name, mark, "seen", 1, 0))
    (case.path / "bisect").mkdir()
    case.write("bisect/state.json", state)
    (case.path / "bisect/answer.md").write_text("It broke in b.\n")
    assert bisected(case) == told


def test_a_result_that_a_case_was_made_with_is_current(case: Case) -> None:
    case.update(stages=tuple(StageRecord(it.name, it.status) for it in case.file.stages))
    again = Case.open(case.path)
    assert again.is_current("capture") and results_of(again).capture is not None
    assert again.read("observe/run.json", Observation).eager in (None, Status.PASS)
