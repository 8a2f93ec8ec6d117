"""Writes that autograd does not see, to what a backward is computed from, are noted, and no others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from repro_kit.runner.read_findings import read_findings
from repro_kit.runner.supervised import PROBE

#: The orders are no part of the test: the watch is started as the override starts it.
_SCRIPT = """
import os, sys
from repro_probe.common.run_files import FindingsDirectory
from repro_probe.record.hidden_writes import watch_hidden_writes

import torch, torch.utils.checkpoint

def steps(x):
    layers = torch.nn.Linear(1, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.5), torch.nn.LSTM(3, 2)
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.Adam(layers[0].parameters())
    for _ in range(3):
        for _ in range(2):
            torch.utils.checkpoint.checkpoint(model, x.detach().view(2, 1), use_reentrant=False)[0].sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        for weight in layers[3].parameters():
            weight.data -= 0.1 * weight.grad
            weight.grad.data.zero_()
    return x.sin()

for name, (make, between) in {
    "kept": (torch.sin, lambda x, y: None),
    "written": (torch.sin, lambda x, y: x.data.add_(1)),
    "swapped": (torch.sin, lambda x, y: setattr(x, "data", torch.ones(2))),
    "view-swapped": (lambda x: x.view(2).sin(), lambda x, y: setattr(x, "data", torch.ones(2))),
    "result": (torch.exp, lambda x, y: y.data.zero_()),
    "not-saved": (torch.neg, lambda x, y: x.data.add_(1)),
    "nan": (torch.log, lambda x, y: None),
    "read": (lambda x: x.detach().exp() * x, lambda x, y: x.detach().data.zero_()),
    "read-before": (lambda x: x.detach().exp() * weight, lambda x, y: x.data.zero_()),
    "statistics": (lambda x: norm(x.view(2, 1)), lambda x, y: None),
    "steps": (steps, lambda x, y: None),
    "seen": (lambda x: x.detach().exp() * weight, lambda x, y: x.detach().zero_()),
}.items():
    child = os.fork()
    if not child:
        os.makedirs(os.path.join(sys.argv[1], name))
        watch_hidden_writes(FindingsDirectory(os.path.join(sys.argv[1], name), {}))
        x = torch.tensor([-1.0, float("nan")], requires_grad=True)
        weight, norm = torch.ones(2, requires_grad=True), torch.nn.BatchNorm1d(1)
        y = make(x)
        between(x, y)
        y.sum().backward()
        os._exit(0)
    assert not os.waitpid(child, 0)[1]
"""


@pytest.mark.torch
@pytest.mark.slow
def test_writes_that_autograd_does_not_see_are_noted(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    environment = {**os.environ, "PYTHONPATH": str(PROBE)}
    subprocess.run([sys.executable, "-c", _SCRIPT, str(tmp_path)], env=environment, check=True)
    seen = {place.name: read_findings(place).hidden_writes for place in tmp_path.iterdir()}
    written = {name for name, writes in seen.items() if writes}
    assert len(seen) == 12 and written == {"written", "swapped", "view-swapped", "result", "read", "read-before"}
    assert set(seen["written"]) == {"float32[2]"}
