"""What a rank of `torch.multiprocessing.spawn` raises is written down, and its printed traceback stays as it is."""

import os
import sys
from pathlib import Path

import pytest

from repro_kit.runner.read_findings import read_findings
from repro_kit.runner.subject_start import probe_environment
from repro_kit.runner.supervised import PROBE, launch

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SCRIPT = """
import torch.multiprocessing as mp


def main(rank):
    if rank == 1:
        raise ValueError("not today")


if __name__ == "__main__":
    mp.spawn(main, nprocs=2)
"""


def test_the_traceback_has_no_frame_of_the_probe(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    env = probe_environment(os.environ, "observe", tmp_path / "probe", 300)
    out, err = tmp_path / "out.txt", tmp_path / "err.txt"
    launch([sys.executable, str(script)], cwd=tmp_path, env=env, timeout=300, stdout=out, stderr=err)
    printed = err.read_text()
    assert "ValueError: not today" in printed and str(PROBE) not in printed
    raised = [uncaught.links[-1] for uncaught in read_findings(tmp_path / "probe").exceptions]
    assert any(link.type == "ValueError" and link.message == "not today" for link in raised), raised
