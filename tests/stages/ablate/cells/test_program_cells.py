"""Cells on a program: how often they are run. The oracle is told what to answer; no program is run here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from repro_kit.case.case import Case, Subject
from repro_kit.case.stage_results import Capture, Environment
from repro_kit.diagnosis.cell import CellPlan
from repro_kit.failure.failure import Failure, Phase, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import signature_of
from repro_kit.options.stages import AblateOptions
from repro_kit.recipe import Recipe
from repro_kit.stages.ablate.cells import program_cells
from repro_kit.stages.ablate.cells.program_cells import OnProgram
from repro_kit.ui import SilentUi

PROGRAM = '''"""A program."""
# repro-kit program 1
import torch

RECIPE = {'backend': 'inductor'}

def graph(x):
    return (x,)


def calls():
    return [(torch.ones(2),)]
'''
GROWS = Failure(Kind.COMPILE_GROWTH, Phase.COMPILE, text="compile time grows 2 times per repetition")
WRONG = Failure(Kind.ACCURACY)
PASS, UNKNOWN = Verdict(Status.PASS), Verdict(Status.CANNOT_TELL)


class Answers:
    """An oracle that gives these verdicts, one for each program that is asked about."""

    def __init__(self, *verdicts: Verdict) -> None:
        self.verdicts = list(verdicts)

    def check(self, texts: Sequence[str], inputs: Path, timeout: float) -> Iterator[Verdict]:
        """The next verdicts."""
        for _ in texts:
            yield self.verdicts.pop(0)


def ran(place: Path, monkeypatch: pytest.MonkeyPatch, failure: Failure, backend: str, *verdicts: Verdict) -> str:
    """The status and the number of runs of a cell with `backend`, which is answered so."""
    case = Case.create(place / "a.repro", Subject("script", ("a.py",), str(place), "python"), "2026-01-01")
    case.update(signature=signature_of(failure))
    case.write("env.json", Environment("3.11", "python", "linux", "2.13.0"))
    case.write("capture/capture.json", Capture("program"))
    (case.path / "capture" / "program.py").write_text(PROGRAM, encoding="utf-8")
    oracle = Answers(*verdicts)

    @contextmanager
    def open_oracle(*_: object) -> Iterator[Answers]:
        yield oracle

    monkeypatch.setattr(program_cells, "open_oracle", open_oracle)
    (cell,) = OnProgram(case, AblateOptions(), SilentUi()).run([CellPlan("a", Recipe(backend=backend))])
    assert not oracle.verdicts
    return f"{cell.verdict.status} {cell.runs}"


def test_a_growth_that_is_known_is_measured_again_where_it_does_not_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ran(tmp_path, monkeypatch, GROWS, "inductor", PASS, UNKNOWN, Verdict(Status.FAIL, GROWS)) == "fail 3"


def test_a_growth_that_never_shows_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(tmp_path, monkeypatch, GROWS, "inductor", PASS, PASS, PASS) == "pass 3"


def test_a_measurement_that_tells_nothing_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(tmp_path, monkeypatch, GROWS, "aot_eager", UNKNOWN, PASS) == "pass 2"


@pytest.mark.parametrize(("failure", "backend"), [(WRONG, "inductor"), (GROWS, "aot_eager")])
def test_a_cell_that_tells_is_run_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Failure, backend: str
) -> None:
    assert ran(tmp_path, monkeypatch, failure, backend, PASS) == "pass 1"


def test_what_a_program_sets_is_in_its_recipe(tmp_path: Path) -> None:
    case = Case.create(tmp_path / "a.repro", Subject("script", ("a.py",), str(tmp_path), "python"), "2026-01-01")
    recipe = {"config": {"inductor.freezing": True}, "options": {"freezing": True}, "env": {"A": "1"}}
    text = PROGRAM.replace("{'backend': 'inductor'}", repr(recipe))
    case.write("env.json", Environment("3.11", "python", "linux", "2.13.0"))
    case.write("capture/capture.json", Capture("program"))
    (case.path / "capture" / "program.py").write_text(text, encoding="utf-8")
    own = OnProgram(case, AblateOptions(), SilentUi()).own_settings()
    assert {"config": own.config, "options": own.options, "env": own.variables} == recipe
    assert own.texts == [text]
