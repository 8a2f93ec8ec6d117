"""Eager raises, and the compiled script returns: from the command line to a verified bundle."""

from __future__ import annotations

from pathlib import Path

import pytest

from collecting import collected

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.usefixtures("scripts_in_forks", "few_runs")]

#: Decompositions of torch 2.13 that lack eager's check; a backend that has them, and no native compiler.
EXPECTING = """
import torch

def pick(x):
    return torch.nn.functional.celu(x + 1, alpha=0.0)

try:
    torch.compile(pick, backend="aot_eager_decomp_partition")(torch.ones(4))
except RuntimeError:
    print("refused, as in eager")
else:
    raise AssertionError("DID NOT RAISE")
"""
#: Without torch.compile, another exception ends the script before.
GOES_ON = """
import torch

def pick(x):
    return torch.nn.functional.celu(x + 1, alpha=0.0)

try:
    refused = pick(torch.ones(4)) is None
except RuntimeError:
    refused = True
out = torch.compile(pick, backend="aot_eager_decomp_partition")(torch.ones(4))
"""
ENDS = ('raise SystemExit(f"an invalid alpha gave {out}")', 'assert not refused, f"eager raises, {out} compiled"')
PLAIN = """
import torch
torch.compile(lambda x: torch.nn.functional.smooth_l1_loss(x, 2 * x, beta=-1.0))(torch.ones(4))
"""
CAUGHT = """
import torch
try:
    CALL
except Exception as error:
    print("refused:", error)
"""
#: Twenty functions that raise in eager and compiled.
BOTH = """
import contextlib
import torch
from torch.nn import functional as F

ones, ints, halves = torch.ones(4), torch.arange(4), torch.ones(4, dtype=torch.float64)
square = torch.ones(1, 1, 8, 8)
invalid = [
    lambda x: x.view(7), lambda x: F.one_hot(ints - 2, 4), lambda x: F.nll_loss(square.view(8, 8), ints),
    lambda x: F.avg_pool2d(square, 3, 1, 2), lambda x: F.max_pool2d(square, 3, 1, 2), lambda x: torch.dot(x, halves),
    lambda x: torch.mean(ints), lambda x: torch.linalg.cholesky(x), lambda x: -(x > 0), lambda x: (x > 0) - (x > 0),
    lambda x: F.glu(x[:3]), lambda x: F.group_norm(x.view(1, 4), 3), lambda x: x @ torch.ones(3, 3),
    lambda x: torch.cat([x, square]), lambda x: x + torch.ones(3), lambda x: F.pixel_shuffle(square, 3),
    lambda x: torch.stack([x, x[:2]]), lambda x: x.squeeze(5), lambda x: torch.linalg.inv(x),
    lambda x: F.dropout(x, 1.5),
]
for function in invalid:
    with contextlib.suppress(Exception):
        torch.compile(function)(ones)
"""


def test_a_script_that_expects_the_exception_becomes_a_verified_program(tmp_path: Path) -> None:
    summary, _ = collected(tmp_path, EXPECTING)
    assert (summary["exit"], summary["failure"], summary["level"]) == (0, "validation", "program")
    assert summary["signature"].startswith("compiled code does not raise eager's RuntimeError: ZeroDivisionError")
    assert (summary["layer"], summary["statements"]) == ("decomposition", 1)


@pytest.mark.parametrize("end", ENDS, ids=["exits", "asserts"])
def test_a_script_that_goes_on_where_eager_ends_has_lost_the_exception(tmp_path: Path, end: str) -> None:
    summary, _ = collected(tmp_path, GOES_ON + end, "--until", "capture")
    assert (summary["exit"], summary["failure"]) == (0, "validation")
    assert summary["signature"].startswith("compiled code does not raise eager's RuntimeError: ZeroDivisionError")
    assert summary["statements"]


def test_any_compiled_call_can_be_checked(tmp_path: Path) -> None:
    summary, _ = collected(tmp_path, PLAIN, "--check", "validation", "--until", "capture")
    assert (summary["exit"], summary["failure"]) == (0, "validation")
    assert summary["statements"] is not None and "beta" in summary["signature"]


def test_where_both_raise_there_is_no_failure(tmp_path: Path) -> None:
    summary, _ = collected(tmp_path, BOTH, "--check", "validation")
    assert (summary["exit"], summary["failure"]) == (3, None)


def test_an_exception_that_eager_raises_too_may_be_caught(tmp_path: Path) -> None:
    script = CAUGHT.replace("CALL", "torch.compile(lambda x: x @ x)(torch.randn(3, 4))")
    summary, _ = collected(tmp_path, script)
    assert (summary["exit"], summary["failure"]) == (3, None)
    assert any("raise in eager, too: RuntimeError" in note for note in summary["notes"])
