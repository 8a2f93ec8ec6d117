"""Rounding or bug? Scripts whose own check fails, from the command line to the exit code."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from collecting import collected

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.usefixtures("scripts_in_forks", "few_runs")]

HALF = """
import torch
torch.manual_seed(0)
def f(x):
    a = torch.sin(x) * torch.cos(x)
    b = a * 3.7 + x
    return torch.tanh(b) * a
x = torch.randn(64, 64).half()
torch.testing.assert_close(torch.compile(f)(x), f(x))
"""
#: Each call agrees with eager by the usual tolerance; a hundred calls make the last digit large.
LOOP = """
import torch
def step(x):
    return torch.sin(3.0 * x + 1.0) * 2.5
compiled = torch.compile(step)
x = y = torch.rand(500, generator=torch.Generator().manual_seed(0))
for _ in range(100):
    x, y = compiled(x), step(y)
assert torch.allclose(x, y), (x - y).abs().max()
"""
#: No compiled call shows it: the check looks at the bookkeeping of the script, whatever the rounding.
LOST = """
import torch
seen = []
def step(x):
    seen.append(1)
    return torch.sin(x * 0.7)
x = torch.randn(64)
torch.compile(step)(x)
step(x)
assert len(seen) == 2 + torch.compiler.is_compiling(), "wrong count"
assert torch.equal(torch.ones(1), torch.ones(1) * (1 + bool(torch._dynamo.utils.counters["stats"]))), "not equal"
"""
#: Eager and the compiled graph draw other numbers from the same seed.
DROPOUT = """
import torch
m = torch.nn.Dropout(0.5)
x = torch.ones(64)
torch.manual_seed(1)
want = m(x)
torch.manual_seed(1)
assert torch.equal(want, torch.compile(m)(x)), "other results"
"""
WRONG_RELU = "import torch._inductor.config\ntorch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = 'accuracy'\n"
WRONG = WRONG_RELU + HALF.replace("torch.tanh(b) * a", "torch.relu(b) * a")


def test_other_random_numbers_are_no_bug(tmp_path: Path) -> None:
    summary, _ = collected(tmp_path, DROPOUT)
    assert (summary["exit"], summary["bundle"]) == (6, None)
    assert summary["rounding"]["random"]
    assert summary["rounding"]["restored_by"] == "inductor.fallback_random=True"


def test_rounding_is_no_bug_and_is_reported_where_it_counts_as_a_failure(tmp_path: Path) -> None:
    summary, _ = collected(tmp_path, HALF)
    assert (summary["exit"], summary["failure"], summary["bundle"]) == (6, "rounding", None)
    rounding = summary["rounding"]
    assert rounding["restored_by"] == "inductor.emulate_precision_casts=True"
    assert all(row["explained"] and row["compiled"] <= row["eager"] for row in rounding["errors"])
    assert rounding["first"]

    words = ("--treat-rounding-as", "failure", "--include-values", "--skip", "minify", "--skip", "ablate")
    again, _ = collected(tmp_path, HALF, *words, subject="user.repro")
    assert (again["exit"], again["failure"], again["level"]) == (0, "rounding", "program")
    with zipfile.ZipFile(tmp_path / again["bundle"]) as archive:
        names = {Path(name).name: name for name in archive.namelist()}
        for name in ("README.md", "issue.md", "report.html"):
            text = archive.read(names[name]).decode()
            assert "eager vs fp64" in text and "Rounding, not a wrong operator" in text, name


def test_a_loop_that_makes_the_last_digit_large_is_no_bug(tmp_path: Path) -> None:
    summary, _ = collected(tmp_path, LOOP)
    assert (summary["exit"], summary["failure"]) == (6, "rounding")
    assert any("same way" in sentence for sentence in summary["rounding"]["evidence"])


def test_a_wrong_operator_in_half_precision_is_a_bug(tmp_path: Path) -> None:
    summary, _ = collected(tmp_path, WRONG, "--until", "capture")
    assert (summary["exit"], summary["failure"], summary["rounding"]) == (0, "accuracy", None)
    assert summary["statements"]


def test_a_failure_that_no_compiled_call_shows_is_nobodys_and_no_rounding(tmp_path: Path) -> None:
    summary, _ = collected(tmp_path, LOST, "--until", "capture")
    assert (summary["exit"], summary["failure"], summary["rounding"]) == (1, "accuracy", None)


def test_a_healthy_check_for_accuracy_tells_of_rounding_and_passes(tmp_path: Path) -> None:
    healthy = "\n".join(HALF.splitlines()[:-1]) + "\ntorch.compile(f)(x)\n"
    summary, _ = collected(tmp_path, healthy, "--check", "accuracy")
    assert (summary["exit"], summary["failure"]) == (3, None)
    assert summary["runs"] == ["observe: what fails?"]
    assert summary["rounding"]["errors"]
