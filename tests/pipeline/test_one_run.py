"""The user's command is started once where a graph fails alone, and each further start has its reason."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from repro_kit.case.case import Case
from repro_kit.case.handles import ABLATION, CAPTURE, OBSERVATION
from repro_kit.case.starts import starts
from repro_kit.model.failure.failure import Kind, Status

pytestmark = [pytest.mark.torch, pytest.mark.slow]

#: A switch of torch's own that makes Inductor's relu wrong (torch/_inductor/config.py).
WRONG_RELU = "import torch, torch._inductor.config\ntorch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = {bug!r}\n"
CHECKED = (
    WRONG_RELU.format(bug="accuracy")
    + """
def plain(x):
    return torch.relu(x - 0.5).sum()

x = torch.ones(8)
torch.testing.assert_close(torch.compile(plain)(x), plain(x))
"""
)
RAISES = (
    WRONG_RELU.format(bug="compile_error")
    + """
torch.compile(lambda x: torch.relu(x).exp() + 1)(torch.ones(8))
"""
)
OWN_BUG = """
import torch
torch.compile(lambda x: x + 1)(torch.ones(3))
raise KeyError("no such column")
"""
NO_GRAPH = """
import torch
@torch.compile(fullgraph=True)
def branches(x):
    return x + 1 if x.sum() > 0 else x - 1
branches(torch.ones(3))
"""
HEALTHY = """
import torch
torch.compile(lambda x: torch.relu(x) + 1)(torch.ones(8))
"""


def collected(tmp_path: Path, script: str, *options: str) -> tuple[dict[str, object], Case]:
    (tmp_path / "user.py").write_text(script)
    words = ["collect", "--yes", "--trace", "no", "--json", *options, "user.py"]
    ran = subprocess.run([sys.executable, "-m", "repro_kit", *words], cwd=tmp_path, capture_output=True, check=False)
    return json.loads(ran.stdout), Case.open(tmp_path / "user.repro")


def test_a_graph_that_fails_alone_needs_one_start(tmp_path: Path) -> None:
    summary, case = collected(tmp_path, CHECKED, "--until", "ablate")
    assert summary["runs"] == ["observe: what fails?"]
    observation, ablation = case.load(OBSERVATION), case.load(ABLATION)
    assert observation.settled and observation.eager is None
    assert ablation.program == "reduced" and not any(cell.subject == "script" for cell in ablation.cells)
    assert any("on the graph, not on the script" in note for note in ablation.notes)
    confirmed = [cell for cell in ablation.cells if cell.changed.get("program") == "captured"]
    assert [cell.same for cell in confirmed] == [False, True]
    assert confirmed[0].verdict.status is Status.PASS


def test_a_graph_that_raises_alone_needs_one_start(tmp_path: Path) -> None:
    summary, case = collected(tmp_path, RAISES, "--until", "capture")
    assert case.load(CAPTURE).subject == "program" and summary["runs"] == ["observe: what fails?"]
    observation = case.load(OBSERVATION)
    assert observation.settled and observation.eager is None


def test_the_users_own_exception_is_asked_of_eager(tmp_path: Path) -> None:
    summary, case = collected(tmp_path, OWN_BUG)
    assert summary["exit"] == 4
    assert summary["runs"] == ["observe: what fails?", "does it fail without torch.compile?"]
    assert case.load(OBSERVATION).failures[0].failure.kind is Kind.RUNTIME_ERROR


def test_without_a_graph_each_start_says_why(tmp_path: Path) -> None:
    summary, case = collected(tmp_path, NO_GRAPH, "--until", "capture")
    runs = summary["runs"]
    assert runs == [
        "observe: what fails?",
        "does it fail without torch.compile?",
        "Dynamo's verbose log",
    ]
    assert case.load(OBSERVATION).eager is Status.PASS
    assert case.load(CAPTURE).subject == "script"
    assert [start.why for start in starts(case)] == runs


def test_a_healthy_script_under_check_accuracy_is_run_once(tmp_path: Path) -> None:
    summary, case = collected(tmp_path, HEALTHY, "--check", "accuracy")
    assert summary["exit"] == 3 and summary["runs"] == ["observe: what fails?"]
    assert case.load(OBSERVATION).compared == 1


def test_observe_alone_settles_whose_failure_it_is(tmp_path: Path) -> None:
    summary, case = collected(tmp_path, CHECKED, "--until", "observe")
    observation = case.load(OBSERVATION)
    assert summary["failure"] == "accuracy" and observation.settled and observation.eager is Status.PASS
