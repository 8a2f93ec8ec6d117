"""The recording of the observed run: what it holds, and whether large values were left out of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from repro_kit.case.case import Case, Subject, starts
from repro_kit.case.stage_results import Observation
from repro_kit.stages.capture.recording import of_another_run, of_observed_run
from repro_kit.subject.script_run import SubjectRun, run_subject
from repro_kit.ui import SilentUi

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SCRIPT = """
import torch
compiled = torch.compile(lambda x: x.relu() + 1, backend="eager")
for step in range(6):
    compiled(torch.full((8,), float(step), requires_grad=True)).sum().backward()
"""


def observation(*, recorded: bool) -> Observation:
    return Observation((), 0, None, False, 1.0, 0, sys.executable, "2.13", recorded=recorded)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    (tmp_path / "user.py").write_text(SCRIPT)
    subject = Subject("script", ("user.py",), str(tmp_path), sys.executable)
    return Case.create(tmp_path / "user.repro", subject, "2030-01-01T00:00:00Z")


def observe(case: Case, limit: int) -> None:
    directory = case.path / "observe"
    run_subject(case, SubjectRun(directory, why="a test", timeout=120, mode="capture", probe={"limit": limit}))


def test_values_and_a_few_calls_are_recorded(case: Case) -> None:
    observe(case, 1 << 20)
    recording = of_observed_run(case, observation(recorded=True))
    assert recording is not None and recording.graphs == 1 and not recording.lacks_values
    (process,) = recording.processes
    assert len(process.calls_of([0])) == 4  # of six
    assert sum(event.event == "backward-begin" for event in process.events) == 4
    assert recording.files == (case.path.parent / "user.py",)
    assert len(list(recording.inputs.glob("*.pt"))) == 4


def test_values_over_the_limit_are_left_out_and_recorded_in_another_run(case: Case) -> None:
    observe(case, 0)
    recording = of_observed_run(case, observation(recorded=True))
    assert recording is not None and recording.lacks_values and not recording.inputs.exists()
    again = of_another_run(case, 120, SilentUi(), "large values were left out")
    assert not again.lacks_values
    assert [start.why for start in starts(case)] == ["a test", "capture: large values were left out"]


def test_a_run_that_was_measured_recorded_nothing(case: Case) -> None:
    assert of_observed_run(case, observation(recorded=False)) is None
