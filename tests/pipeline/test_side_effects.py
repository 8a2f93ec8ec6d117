"""A side effect that only the compiled program loses is found, and its bundle shows it; the script says nothing."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from collecting import collected
from repro_kit.case.stage_results import CAPTURE, OBSERVATION
from repro_kit.failure.failure import STATE

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.usefixtures("scripts_in_forks", "few_runs")]

SCRIPT = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.seen = []

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.seen.append(x.shape[0])
        return self.linear(x)

model = torch.compile(Model(), backend="eager")
for size in (2, 3):
    model(torch.ones(size, 3))
"""


def test_a_lost_side_effect_becomes_a_verified_script(tmp_path: Path) -> None:
    summary, case = collected(tmp_path, SCRIPT, "--check", "accuracy", "--budget", "3", "--skip", "ablate")
    assert (summary["failure"], summary["level"], summary["verified"]) == ("accuracy", "script", True)
    (failure,) = case.load(OBSERVATION).failures
    assert failure.failure.difference is not None
    assert (failure.failure.difference.kind, failure.failure.difference.where) == (STATE, "self.seen after call 1")
    assert case.load(CAPTURE).note.startswith("the difference is not in a result of a graph")
    with zipfile.ZipFile(tmp_path / "user.repro.zip") as archive:
        texts = {Path(name).name: archive.read(name).decode() for name in archive.namelist() if not name.endswith("/")}
    assert (
        "leaves the Python state that the same call leaves in eager" in texts["issue.md"]
        and ".append(" in texts["repro.py"]
    )
