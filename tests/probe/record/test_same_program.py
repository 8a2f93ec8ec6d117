"""A program that the probe watches does what it does without the probe."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import healthy_programs
from probed import run_probed
from repro_kit.probe.repro_probe.protocol.failure_data import signal_name
from repro_kit.runner.subject_start import probe_environment
from repro_kit.runner.supervised import Run, exit_name, launch
from small_programs import PROGRAMS, SmallProgram

FILE = Path(healthy_programs.__file__)
SECONDS = 120
_VARIES = re.compile(r"0x[0-9a-f]+|(?<=started )\d+")


def as_text(place: Path, end: str) -> str:
    """How a program ended in `place`, with all that it wrote. Addresses differ from run to run."""
    files = {str(path.relative_to(place)): path for path in sorted(place.rglob("*")) if path.is_file()}
    contents = [f"{name}: {path.read_bytes().decode(errors='backslashreplace')}" for name, path in files.items()]
    return _VARIES.sub("…", "\n".join([end, *sorted(map(str, place.rglob("*"))), *contents])).replace(
        str(place), "PLACE"
    )


def alone(words: list[str], place: Path, env: Mapping[str, str]) -> str:
    """Run a program as a user does, with its output in files."""
    place.mkdir()
    with (place / "stdout").open("wb") as out, (place / "stderr").open("wb") as err:
        ended = subprocess.run(
            words,
            cwd=place,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            timeout=SECONDS,
        )
    died = signal_name(-ended.returncode) if ended.returncode < 0 else None
    return as_text(
        place, exit_name(Run(None if died else ended.returncode, died, timed_out=False, seconds=0, peak_memory=0))
    )


def watched(words: list[str], place: Path, env: Mapping[str, str]) -> str:
    """Run a program under the probe, as observe does."""
    place.mkdir()
    findings = place.with_name(f"{place.name}-probe")
    ended = launch(
        words,
        cwd=place,
        env=probe_environment(env, "capture", findings, SECONDS, {"limit": 0}),
        timeout=SECONDS,
        stdout=place / "stdout",
        stderr=place / "stderr",
    )
    return as_text(place, exit_name(ended))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_small_program_ends_as_it_ends_alone(tmp_path: Path, name: str) -> None:
    program: SmallProgram = PROGRAMS[name]
    scripts = tmp_path / "scripts"
    for file, text in {"torch.py": "__version__ = '0'\n", "script.py": program.code, **program.files}.items():
        (scripts / file).parent.mkdir(parents=True, exist_ok=True)
        (scripts / file).write_text(text, encoding="utf-8")
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "COLUMNS", "LINES")}
    env |= {"PYTHONDONTWRITEBYTECODE": "1"}
    env |= {name: value.replace("{scripts}", str(scripts)) for name, value in program.variables.items()}
    words = [sys.executable, *program.flags, str(scripts / "script.py"), "an argument"]
    assert watched(words, tmp_path / "watched", env) == alone(words, tmp_path / "alone", env)


@pytest.mark.torch
@pytest.mark.slow
def test_a_watched_program_does_what_it_does_alone(tmp_path: Path) -> None:
    command = [sys.executable, str(FILE), "aot_eager"]
    alone = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    source = FILE.read_text(encoding="utf-8").replace("sys.argv[1]", repr("aot_eager"))
    logged = {"TORCH_TRACE": str(tmp_path / "trace"), "TORCH_LOGS": "graph_breaks,recompiles"}
    logged["TORCH_LOGS_OUT"] = str(tmp_path / "torch.txt")
    watched = json.loads(run_probed(tmp_path, source, "capture", {}, variables=logged))
    assert len(watched) > 20
    assert watched == json.loads(alone)
    failed = [name for name, result in watched.items() if "Error: " in str(result)]
    assert len(failed) < 3, failed  # torch 2.5 does not save a compiled module
