"""A disk that gets full: one sentence, nothing finished is lost, and the same command goes on once there is space."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from repro_kit.case.case import Case
from repro_kit.case.stage_results import Observation

pytestmark = [pytest.mark.torch, pytest.mark.slow]

_FAILS = """
import sys
import torch

@torch.compile(backend=lambda gm, inputs: 1 / 0)
def f(x):
    return x + 1

sys.stdout.write("x" * int(sys.argv[1]))
f(torch.ones(2))
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB; skips where none can be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root can mount a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def run(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "repro_kit", *words]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, cwd=place, env=env, capture_output=True, text=True)


def test_a_run_that_fills_the_disk_is_no_verdict(small_disk: Path, tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text(_FAILS)
    words = ["observe", "--python", sys.executable, "-o", str(small_disk / "case"), str(tmp_path / "fails.py")]
    done = run(tmp_path, *words, str(16 << 20))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "The disk is full at" in done.stderr and "Traceback" not in done.stdout + done.stderr
    assert Case.open(small_disk / "case").stage("observe").status != "done"


def test_what_was_finished_stays_and_is_gone_on_with(small_disk: Path, tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text(_FAILS)
    words = ["--python", sys.executable, "-o", str(small_disk / "case"), str(tmp_path / "fails.py"), "5"]
    assert run(tmp_path, "observe", *words).returncode == 0
    before = (small_disk / "case" / "observe" / "run.json").read_bytes()
    with (small_disk / "filler").open("wb") as file:
        file.write(bytes(shutil.disk_usage(small_disk).free))
    done = run(tmp_path, "capture", *words)
    assert done.returncode == 1 and len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "The disk is full at" in done.stderr
    assert (small_disk / "case" / "observe" / "run.json").read_bytes() == before
    case = Case.open(small_disk / "case")
    assert case.stage("observe").status == "done" and case.read("observe/run.json", Observation).failures
    (small_disk / "filler").unlink()
    done = run(tmp_path, "capture", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (small_disk / "case" / "observe" / "run.json").read_bytes() == before
