"""Queries on an accelerator: forked like any other, judged by what they do themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from repro_kit.failure.failure import Status
from repro_kit.failure.kinds import Kind
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.runner.supervised import PROBE

pytestmark = pytest.mark.torch
on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")

PROGRAM = """import torch
RECIPE = {recipe!r}
def graph(x):
    y = torch.relu(x)
    return (y,)
def calls():
    return [(torch.randn(8, 16, device="cuda"),)]
"""
OUT_OF_BOUNDS = """import torch
RECIPE = {}
def graph(x, at):
    return (x[at] + 1,)
def calls():
    return [(torch.randn(8, device="cuda"), torch.tensor([9], device="cuda"))]
"""
#: Runs out of memory where another program runs at the same time.
BESIDE = """import pathlib
import time
import torch
RECIPE = {{"check": False, "backend": "eager"}}
def graph(x):
    return (x + 1,)
def calls():
    mine = pathlib.Path({directory!r}, {name!r})
    mine.touch()
    try:
        time.sleep(2)
        if len(list(mine.parent.iterdir())) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
    finally:
        mine.unlink()
    return [(torch.ones(2),)]
"""


def ask(before: str) -> str:
    asking = "from repro_probe.server.warm import ask_child\nprint(*ask_child(), sep='|')"
    code = f"import torch\n{before}\n{asking}"
    env = {**os.environ, "PYTHONPATH": str(PROBE)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.skipif(torch.cuda.is_available(), reason="has CUDA")
def test_a_machine_without_an_accelerator_has_no_problem_with_it():
    assert ask("") == "|"


@on_cuda
def test_a_forked_child_can_use_cuda_unless_its_parent_has_started_cuda():
    assert ask("") == "cuda|"
    name, problem = ask("torch.ones(1, device='cuda')").split("|")
    assert name == "cuda" and "forked" in problem


@on_cuda
def test_forked_queries_compile_for_cuda(tmp_path: Path):
    wrong = PROGRAM.format(recipe={"config": {"inductor.triton.inject_relu_bug_TESTING_ONLY": "accuracy"}})
    with ProgramOracle(sys.executable, cache=tmp_path / "cache", jobs=2) as oracle:
        right, injected = oracle.check([PROGRAM.format(recipe={}), wrong], None)
        assert (right.status, injected.status) == (Status.PASS, Status.FAIL)
        assert injected.failure is not None and injected.failure.kind is Kind.ACCURACY


@on_cuda
def test_the_error_of_a_kernel_belongs_to_the_step_that_started_the_kernel(tmp_path: Path):
    with ProgramOracle(sys.executable, cache=tmp_path / "cache") as oracle:
        (verdict,) = oracle.check([OUT_OF_BOUNDS], None)
    assert verdict.status is Status.INVALID, "eager fails too"


@pytest.mark.slow
def test_a_query_that_lacks_device_memory_beside_others_is_asked_again_alone(
    oracle: ProgramOracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oracle, "jobs", 2)
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    texts = [BESIDE.format(directory=str(meeting), name=name) for name in "ab"]
    assert [verdict.status for verdict in oracle.check(texts, None)] == [Status.PASS, Status.PASS]


@on_cuda
def test_a_difference_between_two_ways_to_round_to_tf32_is_no_wrong_result(tmp_path: Path):
    text = (
        "import torch\nRECIPE = {'mode': 'max-autotune-no-cudagraphs'}\n"
        "torch.set_float32_matmul_precision('high')\n"
        "def graph(q, k, v):\n"
        "    w = torch.softmax(q @ k.transpose(-1, -2) / 8, -1)\n"
        "    return (w @ v,)\n"
        "def calls():\n"
        "    return [tuple(torch.randn(4, 128, 64, device='cuda') for _ in range(3))]\n"
    )
    with ProgramOracle(sys.executable, cache=tmp_path / "cache") as oracle:
        (verdict,) = oracle.check([text], None)
    assert verdict.status is Status.PASS
