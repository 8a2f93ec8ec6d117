"""Ranks that wait for each other without torch.compile too: no failure of the compiler, and a bundle nevertheless."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from repro_kit.cli.main import cli
from repro_kit.errors import Exit
from repro_kit.verdicts import deadlocks

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.usefixtures("one_zygote", "few_runs")]

SCRIPT = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
out = torch.compile(torch.sin, backend="eager")(torch.ones(2) + rank)
if rank == 1:
    dist.all_reduce(out)
dist.barrier()
print(out)
"""


def test_the_script_is_reduced_without_the_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # The two calls can never meet: a second of waiting is as good as five.
    monkeypatch.setattr(deadlocks, "CERTAIN", deadlocks.STUCK)
    monkeypatch.setattr(deadlocks, "LOOK", 0.5)
    Path("train.py").write_text(SCRIPT, encoding="utf-8")
    # The job runs on one machine all the same.
    node = ["--nnodes", "2", "--node-rank", "1", "--master-addr", "10.255.255.1"]
    launch = [sys.executable, "-m", "torch.distributed.run", *node, "--nproc-per-node", "1", "train.py"]
    ran = CliRunner().invoke(cli, ["collect", "--yes", "--budget", "12", "--", *launch])
    assert ran.exit_code == Exit.USER_BUG, ran.output
    assert "The job of 2 nodes is run on this machine alone, with 2 ranks" in ran.output
    assert "Verified, and not a compiler bug" in ran.output
    reduced = Path("train.repro/bundle/repro.py").read_text()
    assert "print" not in reduced and "all_reduce" in reduced and "barrier" in reduced
    bundle = json.loads(Path("train.repro/bundle.json").read_text())
    assert bundle["verified"] and bundle["layer"] == "user" and not bundle["passes_in_eager"]
    issue = Path("train.repro/bundle/issue.md").read_text()
    assert "This is not a PyTorch bug.** It fails without torch.compile too" in issue
    assert "passed without torch.compile" not in Path("train.repro/bundle/README.md").read_text()
