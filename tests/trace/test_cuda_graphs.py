"""Compiled code that CUDA graphs do not run, and why."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from repro_kit.cli.main import cli
from repro_kit.trace.insights import gather
from repro_kit.trace.insights.overview import skipped
from repro_kit.trace.places import CompileRef

REF = CompileRef("0/0", None, "trace.log")
#: As torch/_inductor/cudagraph_utils.py writes it.
MUTATED = """skipping cudagraphs due to mutated inputs (1 instances). Found from :
   File "/home/me/train.py", line 9, in step
    cache.add_(x)
"""
#: The one reason that a machine without CUDA shows.
SCRIPT = """
import torch
import torch._inductor.config as config
config.cpp_wrapper = config.triton.cudagraphs = config.graph_partition = True
torch.compile(lambda x: x * 2)(torch.ones(3))
"""


def test_the_reason_and_the_line_are_read():
    skip = skipped(REF, MUTATED)
    assert skip.reason == "mutated inputs (1 instances)"
    assert skip.where is not None
    assert (skip.where.file, skip.where.line, skip.where.function) == ("/home/me/train.py", 9, "step")
    assert skip.where.code == "cache.add_(x)"


def test_a_reason_without_a_line():
    skip = skipped(REF, "skipping cudagraphs due to cpu device (arg0_1)")
    assert (skip.reason, skip.where) == ("cpu device (arg0_1)", None)


@pytest.mark.torch
@pytest.mark.slow
def test_explain_says_it_of_a_real_trace(tmp_path: Path):
    script, trace = tmp_path / "script.py", tmp_path / "trace"
    script.write_text(SCRIPT)
    env = {**os.environ, "TORCH_TRACE": str(trace), "TORCHINDUCTOR_VEC_ISA_OK": "1"}  # without test libraries
    subprocess.run([sys.executable, script], env=env, check=True)
    skips = gather(trace).overview.without_cuda_graphs
    if not skips:
        pytest.skip("this torch runs graph partitions with the C++ wrapper, or does not record why not")
    assert len(skips) == 1 and "cpp-wrapper" in skips[0].reason
    told = " ".join(CliRunner().invoke(cli, ["explain", str(trace)]).output.split())
    assert f"1 graph is not run by CUDA graphs: {skips[0].reason}." in told
