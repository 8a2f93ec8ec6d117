"""Where only the final check shows that a failure is flaky, the cells of the ablation run again, more often."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from repro_kit.case.case import Case
from repro_kit.case.handles import ABLATION, BUNDLE
from repro_kit.model.ablation.layer import Layer
from repro_kit.model.run_outcome import RunOutcome

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SCRIPT = """
import torch, torch._inductor.config
torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"
torch.compile(torch.relu)(torch.ones(8))
"""
_OFTEN = 3


def collected(tmp_path: Path, *words: str) -> dict[str, Any]:
    run = [sys.executable, "-m", "repro_kit", "collect", "--yes", "--trace", "no", "--json", *words]
    ran = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    summary: dict[str, Any] = json.loads(ran.stdout)
    assert summary["exit"] == ran.returncode == 0, ran.stderr
    return summary


def test_the_cells_run_as_often_as_the_final_check_asks(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(SCRIPT)
    collected(tmp_path, "--deadline", "5", "user.py")
    case = Case.open(tmp_path / "user.repro")
    before = case.load(BUNDLE)
    case.store(BUNDLE, replace(before, layer=None, lacking=_OFTEN))  # what a final check leaves that saw it pass

    collected(tmp_path, "user.repro")
    after, cells = case.load(BUNDLE), case.load(ABLATION).cells
    assert (after.layer, after.lacking) == (Layer.INDUCTOR, 0)
    passed = [cell for cell in cells if cell.outcome is RunOutcome.PASSES and cell.compiled and not cell.inferred]
    assert passed and all(cell.runs == _OFTEN for cell in passed)

    settled = case.load(ABLATION)
    collected(tmp_path, "user.repro")
    assert case.load(ABLATION) == settled, "the cells do not run a third time"
