"""A compiled call that takes the process down, from the script to a verified bundle.

examples/crash_signal.py does so in a kernel of Inductor's; scripts/matrix collects it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from collecting import collected
from repro_kit.case.stage_results import OBSERVATION

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.usefixtures("scripts_in_forks", "few_runs")]

SCRIPT = """
import os
import torch

def dies(gm, example_inputs):
    if not any("relu" in str(node.target) for node in gm.graph.nodes):
        return gm.forward
    return lambda *values: os.abort()

def regress(x):
    x = torch.log1p(x.abs()) * torch.sign(x)
    return torch.tanh(torch.relu(x)).sum(-1)

x = torch.randn(8, 12)
print("eager:   ", regress(x).mean().item(), flush=True)
print("compiled:", torch.compile(regress, backend=dies)(x).mean().item())
"""


def test_a_crash_becomes_a_verified_program(tmp_path: Path) -> None:
    summary, case = collected(tmp_path, SCRIPT)
    assert (summary["exit"], summary["failure"], summary["level"]) == (0, "crash", "program"), summary
    assert (summary["layer"], summary["statements"], summary["verified"]) == ("backend", 1, True)
    observation = case.load(OBSERVATION)
    assert (observation.signal, observation.failures[0].failure.signal) == ("SIGABRT", "SIGABRT")
    repro = (case.path / "bundle" / "repro.py").read_text()
    assert "relu" in repro and "tanh" not in repro
