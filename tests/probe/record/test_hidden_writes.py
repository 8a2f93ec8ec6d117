"""Writes to saved tensors that autograd does not see are noted, and no others."""

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

import torch

for name, (make, between) in {
    "kept": (torch.sin, lambda x, y: None),
    "written": (torch.sin, lambda x, y: x.data.add_(1)),
    "swapped": (torch.sin, lambda x, y: setattr(x, "data", torch.ones(2))),
    "view-swapped": (lambda x: x.view(2).sin(), lambda x, y: setattr(x, "data", torch.ones(2))),
    "result": (torch.exp, lambda x, y: y.data.zero_()),
    "not-saved": (torch.neg, lambda x, y: x.data.add_(1)),
    "nan": (torch.log, lambda x, y: None),
}.items():
    child = os.fork()
    if not child:
        os.makedirs(os.path.join(sys.argv[1], name))
        watch_hidden_writes(FindingsDirectory(os.path.join(sys.argv[1], name), {}))
        x = torch.tensor([-1.0, float("nan")], requires_grad=True)
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
    assert len(seen) == 7 and written == {"written", "swapped", "view-swapped", "result"}
    assert seen["written"] == ("float32[2]",)
