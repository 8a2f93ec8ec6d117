"""A script that ends with a status and no traceback: only that status, without a traceback, is the failure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from repro_kit.bundle.facts import Facts
from repro_kit.bundle.repro.script_repro import render_script
from repro_kit.bundle.repro.source_files import PLACE, find_sources
from repro_kit.case.case import Subject
from repro_kit.case.stage_results import Environment
from repro_kit.failure.failure import Failure
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature

ENV = Environment(python="3.11.7", executable="/usr/bin/python3", platform="Linux", torch="2.13.0")
SCRIPT = """
import os
import sys

if os.environ["END"] == "raise":
    raise ValueError
sys.exit(int(os.environ["END"]))
"""


@pytest.mark.parametrize(
    ("end", "status", "words"),
    [
        ("3", 1, "FAIL: "),
        ("0", 0, "PASS"),
        ("4", 125, "it fails differently, with exit status 4"),
        ("raise", 125, "it fails differently, with exit status 1"),
    ],
)
def test_the_status_tells_the_failure(tmp_path: Path, end: str, status: int, words: str) -> None:
    script = tmp_path / PLACE / "train.py"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    subject = Subject("script", ("train.py",), str(script.parent), sys.executable)
    facts = Facts(Signature(Kind.ACCURACY), Failure(Kind.ACCURACY, exit_status=3), ENV)
    repro = tmp_path / "repro.py"
    repro.write_text(render_script(subject, find_sources(subject, []), facts, why="", limit=9, traced=False))
    run = subprocess.run([sys.executable, str(repro)], env={**os.environ, "END": end}, capture_output=True, text=True)
    assert (run.returncode, words in run.stdout + run.stderr) == (status, True), run.stderr
