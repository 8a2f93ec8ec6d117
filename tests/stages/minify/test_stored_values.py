"""A reduced program that needs stored values is no self-contained repro, so the script is reduced as well."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from repro_kit.case.case import Case
from repro_kit.case.handles import ABLATION, BUNDLE, REDUCTION, SOURCE_REDUCTION

pytestmark = [pytest.mark.torch, pytest.mark.slow]

WRONG_RELU = """
import torch
import torch._inductor.config

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"

def head(x):
    return torch.relu(x) + 1

torch.manual_seed(0)
x = torch.randn(8, 12)
torch.testing.assert_close(torch.compile(head)(x), head(x))
"""


def repro_kit(directory: Path, *words: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "repro_kit", words[0], "--json", *words[1:]]
    summary: dict[str, Any] = json.loads(
        subprocess.run(command, cwd=directory, capture_output=True, check=False).stdout
    )
    return summary


def test_where_the_program_needs_stored_values_the_script_is_reduced_judged_and_bundled(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(WRONG_RELU)
    repro_kit(tmp_path, "minify", "--budget", "2", "user.py")  # so few queries leave the script's values in the program
    repro_kit(tmp_path, "ablate", "--preset", "quick", "--no-narrow", "user.repro")
    summary = repro_kit(tmp_path, "bundle", "--yes", "--trace", "no", "--include-source", "user.repro")
    case = Case.open(tmp_path / "user.repro")
    program, script = case.load(REDUCTION), case.load(SOURCE_REDUCTION)
    assert not program.self_contained and script.self_contained and script.verified
    assert case.load(ABLATION).subject == "script"
    bundle = case.load(BUNDLE)
    assert bundle.verified and bundle.level == "script" and not bundle.dropped
    assert (summary["exit"], summary["layer"]) == (0, "inductor")
    script_in_bundle = (case.path / "bundle" / "files" / "reduced.py").read_text()
    assert "relu" in script_in_bundle and "load(" not in script_in_bundle
    assert "| the user's script, reduced |" in (case.path / "bundle" / "README.md").read_text()
