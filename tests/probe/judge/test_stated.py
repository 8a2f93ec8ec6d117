"""What the probe reads of a failed check's tolerance, from the script's frames, in the user's interpreter."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from repro_kit.runner.supervised import PROBE

pytestmark = pytest.mark.torch

SCRIPT = """
import json, sys
import torch
from repro_probe.record.raised import stated_tolerance as tolerance

LIMIT = 1e-2
a, b = torch.zeros(3), torch.ones(3)

def check(x, y, tol=3e-3):
    assert torch.allclose(
        x, y,
        rtol=0.0, atol=tol,
    ), "no"

def later():
    settings = {"tol": 1e-3}
    ok = torch.allclose(a, b, settings["tol"])
    print("differ" if not ok else "")
    if not ok:
        raise RuntimeError("mismatch")

def close():
    torch.testing.assert_close(a, b, rtol=0.1, atol=2 * LIMIT)

def usual():
    torch.testing.assert_close(a, b)

def equal():
    assert torch.equal(a, b)

def none():
    assert a.sum() > 3

found = {}
for function in (lambda: check(a, b), later, close, usual, equal, none):
    try:
        function()
    except Exception as error:
        found[function.__name__] = tolerance(error)
print(json.dumps(found))
"""


@pytest.mark.slow
def test_the_tolerance_of_a_failed_check_is_read_off_its_frames(tmp_path: Path) -> None:
    script = tmp_path / "check.py"
    script.write_text(SCRIPT)
    run = subprocess.run(
        [sys.executable, str(script)], env={"PYTHONPATH": str(PROBE)}, capture_output=True, text=True, check=True
    )
    assert json.loads(run.stdout.splitlines()[-1]) == {
        "<lambda>": [0.0, 3e-3],
        "later": [1e-3, 1e-8],
        "close": [0.1, 0.02],
        "usual": None,
        "equal": [0.0, 0.0],
        "none": None,
    }
