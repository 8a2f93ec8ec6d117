"""How long the narrowing may take: on a reduced program five minutes, whatever one run costs."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from repro_kit.case.case import Case, StageRecord, Subject
from repro_kit.case.stage_results import Capture, Environment
from repro_kit.diagnosis.cell import Cell
from repro_kit.diagnosis.evidence import Chain, Step
from repro_kit.failure.failure import Failure, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, signature_of
from repro_kit.options.stages import AblateOptions
from repro_kit.recipe import Recipe
from repro_kit.stages.ablate.cells.program_cells import OnProgram
from repro_kit.stages.ablate.narrow import experiments
from repro_kit.stages.ablate.narrow.chain import narrow
from repro_kit.stages.ablate.narrow.experiments import Applied, Experiment, Variation
from repro_kit.ui import Ui

PROGRAM = """# repro-kit program 1
import torch

RECIPE = {}


def graph(x):
    a = torch.exp(x)
    return (a,)


def calls():
    x = torch.randn(8)
    return [(x,)]
"""
APPLIED = tuple(Applied("inductor", "lowerings", name) for name in ("aten.exp.default", "aten.cos.default"))


class Reduced(OnProgram):
    is_reduced = True


def narrowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, cells: type[OnProgram] = Reduced
) -> Chain:
    """The chain of a crash of which each run takes so long; it is gone without the second lowering."""
    clock = [0.0]
    monkeypatch.setattr(experiments, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    def run(self: object, variations: list[Variation]) -> list[Experiment]:
        clock[0] += seconds * len(variations)
        off = [variation.switch is not None and variation.switch.get("last", 1) < 1 for variation in variations]
        outcomes = [RunOutcome.PASSES if gone else RunOutcome.FAILS_ALIKE for gone in off]
        return [Experiment(outcome, seconds=seconds, applied=APPLIED) for outcome in outcomes]

    monkeypatch.setattr(experiments.ProgramRunner, "run", run)
    listed = {"subsystems": {"inductor": [{"name": "lowerings"}]}}
    monkeypatch.setattr(experiments.ProgramRunner, "capabilities", lambda self: listed)
    case = Case.create(tmp_path / "x.repro", Subject("script", ("x.py",), str(tmp_path), sys.executable), "2026-01-01")
    case.write("env.json", Environment("3", sys.executable, "here", "2"))
    (case.path / "capture").mkdir()
    (case.path / "capture" / "program.py").write_text(PROGRAM)
    verdict = Verdict(Status.FAIL, Failure(Kind.CRASH, signal="SIGSEGV"), seconds=seconds)
    assert verdict.failure is not None
    target = signature_of(verdict.failure)
    case.update(signature=target)
    case.write("capture/capture.json", Capture("program", graphs=1, graph="0/0", verdict=verdict))
    case.record(StageRecord("capture", "done"))
    good = Cell("no torch.compile", False, Recipe(), Verdict(Status.PASS))
    bad = Cell("inductor", True, Recipe(), verdict, target, same=True)
    steps: tuple[Step, ...] = ("subsystem", "op")
    on = cells(case, AblateOptions(narrow=None), Ui(quiet=True), target)
    return narrow(on, [good, bad], Recipe(), target, steps, Ui(quiet=True))


def test_a_run_of_half_a_minute_is_no_reason_to_name_no_culprit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = narrowed(tmp_path, monkeypatch, 30.0)
    assert "#1 aten.cos.default" in [link.culprit for link in chain.links]
    assert not chain.untried


def test_what_is_left_after_five_minutes_says_what_it_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = narrowed(tmp_path, monkeypatch, 120.0)
    assert [link.culprit for link in chain.links] == ["inductor", "lowerings"]
    (untried,) = chain.untried
    assert untried.step == "op"
    assert untried.why == "the 300 s for this are over (3 runs, 120 s each); to go on, use repro-kit ablate --narrow op"


def test_a_whole_program_gets_a_minute_for_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = narrowed(tmp_path, monkeypatch, 30.0, OnProgram)
    assert chain.runs == 0 and "about 12 runs of 30 s" in chain.untried[0].why
