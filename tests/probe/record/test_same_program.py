"""A program that the probe watches does what it does without the probe; with real torch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import healthy_programs
from probed import run_probed

FILE = Path(healthy_programs.__file__)


@pytest.mark.torch
@pytest.mark.slow
def test_a_watched_program_does_what_it_does_alone(tmp_path: Path) -> None:
    command = [sys.executable, str(FILE), "aot_eager"]
    alone = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    source = FILE.read_text(encoding="utf-8").replace("sys.argv[1]", repr("aot_eager"))
    watched = json.loads(run_probed(tmp_path, source, "capture", {}))
    assert len(watched) > 20
    assert watched == json.loads(alone)
    failed = [name for name, result in watched.items() if "Error: " in str(result)]
    assert len(failed) < 3, failed  # torch 2.5 does not save a compiled module
