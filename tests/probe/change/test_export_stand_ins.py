"""A script that exports runs by every other entry, in the script's own words."""

import os
import subprocess
import sys

import pytest

from repro_kit.runner.launch import PROBE

pytestmark = [pytest.mark.torch]

SCRIPT = """
import sys
import torch
from repro_probe.change import export_stand_ins

class Doubled(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.silu(x) * 2

def operators(entry):
    exported = torch.export.export(Doubled(), (torch.ones(3),))
    print(entry, [str(node.target) for node in exported.graph.nodes if node.op == "call_function"])

export_stand_ins.install(sys.argv[1])
operators(sys.argv[1])
"""


@pytest.mark.parametrize("entry", ["export", "export-strict", "export-draft", "export-decomposed"])
def test_a_script_exports_in_another_way(entry: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, entry],
        env={**os.environ, "PYTHONPATH": str(PROBE)},
        capture_output=True,
        text=True,
        check=True,
    )
    decomposed = entry == "export-decomposed"
    assert ("aten.silu.default" in done.stdout) is not decomposed
    assert "aten.mul.Tensor" in done.stdout
