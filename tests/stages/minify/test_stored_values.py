"""A reduced program that needs stored values is no self-contained repro, so the script is reduced as well."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from collecting import told
from repro_kit.case.case import Case
from repro_kit.case.stage_results import ABLATION, BUNDLE, REDUCTION, SOURCE_REDUCTION

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.usefixtures("scripts_in_forks", "few_runs")]

#: The backend is wrong where there is a relu.
WRONG_RELU = """
import torch

def mine(gm, example_inputs):
    wrong = any("relu" in str(node.target) for node in gm.graph.nodes)
    return (lambda *values: [value + 1 for value in gm(*values)]) if wrong else gm.forward

def head(x):
    return torch.relu(x) + 1

torch.manual_seed(0)
x = torch.randn(8, 12)
torch.testing.assert_close(torch.compile(head, backend=mine)(x), head(x))
"""


def test_where_the_program_needs_stored_values_the_script_is_reduced_judged_and_bundled(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(WRONG_RELU)
    told(
        tmp_path, "minify", "--python", sys.executable, "--budget", "2", "user.py"
    )  # so few queries leave the script's values in the program
    told(tmp_path, "ablate", "--preset", "quick", "--no-narrow", "user.repro")
    summary = told(tmp_path, "bundle", "--yes", "--trace", "no", "user.repro")
    case = Case.open(tmp_path / "user.repro")
    program, script = case.load(REDUCTION), case.load(SOURCE_REDUCTION)
    assert not program.self_contained and script.self_contained and script.verified
    assert case.load(ABLATION).subject == "script"
    bundle = case.load(BUNDLE)
    assert bundle.verified and bundle.level == "script" and not bundle.dropped
    assert (summary["exit"], summary["layer"]) == (0, "backend")
    script_in_bundle = (case.path / "bundle" / "repro.py").read_text()
    assert "relu" in script_in_bundle and "load(" not in script_in_bundle
    assert "| shows the failure |" in (case.path / "bundle" / "README.md").read_text()
