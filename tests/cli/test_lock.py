"""A case that another process works on: a second run is refused, and changes nothing at all."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from repro_kit.case.case import Case


def state(place: Path) -> dict[str, tuple[int, int, int, str]]:
    """Everything below `place`: mode, size, time of the last change, and digest, by name."""
    found = {}
    for path in sorted((place, *place.rglob("*"))):
        seen = path.lstat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path)] = (seen.st_mode, seen.st_size if digest else 0, seen.st_mtime_ns, digest)
    return found


@contextmanager
def locked(case: Path) -> Iterator[None]:
    with (case / ".lock").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


COMMANDS = {
    "again": ["collect", "train.py"],
    "fresh": ["collect", "--fresh", "train.py"],
    "with other options": ["collect", "--timeout", "7", "--logs", "dynamo", "train.py"],
    "one stage": ["observe", "train.py"],
    "its case": ["collect", "train.repro"],
    "one stage of its case": ["minify", "train.repro"],
    "its bundle anew": ["bundle", "train.repro"],
    "fresh, of another command": ["collect", "--fresh", "-o", "train.repro", "other.py"],
    "explained": ["explain", "train.py"],
    "explained anew": ["explain", "--fresh", "train.py"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_refused_run_changes_nothing(work, fakes, repro_kit, command):
    (work / "other.py").write_text("import torch\n")
    assert repro_kit("collect", "train.py").exit_code == 0
    fakes.ran()
    before = state(work)
    with locked(work / "train.repro"):
        result = repro_kit(*command)
    assert result.exit_code == 2
    assert "Another repro-kit is working on" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert state(work) == before


def test_a_refused_mistake_makes_no_lock(work, fakes, repro_kit):
    repro_kit("collect", "--until", "observe", "train.py")
    (work / "train.repro" / ".lock").unlink()  # as in a case from elsewhere
    before = state(work)
    assert repro_kit("collect", "train.py", "other").exit_code == 2
    assert repro_kit("collect", "--fresh", "train.repro").exit_code == 2
    assert state(work) == before


def test_fresh_starts_anew_and_keeps_the_lock(work, fakes, repro_kit):
    repro_kit("collect", "train.py")
    case = work / "train.repro"
    (case / "old").mkdir()
    (case / "old" / "result").write_text("of the first run")
    lock = (case / ".lock").stat().st_ino
    fakes.ran()
    assert repro_kit("collect", "--fresh", "--until", "observe", "train.py").exit_code == 0
    assert fakes.ran() == ["observe"]
    assert not (case / "old").exists() and not (case / "minify").exists()
    assert (case / ".lock").stat().st_ino == lock


@pytest.mark.slow
def test_two_fresh_runs_at_once_are_one(work):
    """Both begin on the same case; one is refused, and the other's result is whole."""
    modules = work / "modules"
    modules.mkdir()
    (modules / "slow.py").write_text(
        "import pathlib, time\n"
        "def run(case, options, ui):\n"
        "    while not pathlib.Path('go').exists():\n        time.sleep(0.05)\n"
        "    ui.done('slow')\n"
    )
    (modules / "driver.py").write_text(
        "import dataclasses, sys\n"
        "sys.path.insert(0, sys.argv.pop(1))\n"
        "from repro_kit.pipeline.run import REGISTRY\n"
        "REGISTRY['observe'] = dataclasses.replace(REGISTRY['observe'], module='slow')\n"
        "from repro_kit.cli.main import main\n"
        "main()\n"
    )
    command = [sys.executable, str(modules / "driver.py"), str(modules), "observe", "--fresh", "train.py"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    runs = [
        subprocess.Popen(command, cwd=work, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    while sum(run.poll() is None for run in runs) > 1:
        time.sleep(0.05)
    (work / "go").touch()
    told = [run.communicate()[1] for run in runs]
    assert sorted(run.returncode for run in runs) == [0, 2, 2], told
    assert sum("Another repro-kit is working" in text for text in told) == 2
    assert Case.open(work / "train.repro").stage("observe").status == "done"


def test_what_a_kill_left_is_removed(work, fakes, repro_kit, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    repro_kit("collect", "--until", "observe", "train.py")
    case = work / "train.repro"
    left = [
        tmp_path / "repro-kit-4194304-abcdefgh",
        case / ".case.toml.k2x9abcd.part",
        case / "observe" / ".run.json.k2x9abcd.part",
        work / ".train.repro.zip.k2x9abcd.part",
    ]
    for path in left:
        path.parent.mkdir(exist_ok=True)
        if path.suffix == ".part":
            path.write_text("half")
        else:
            (path / "deep" / "er").mkdir(parents=True)
    kept = [tmp_path / "repro-kit-notes", case / ".mine.part", work / ".train.repro.zip.part"]
    for path in kept:
        path.touch()
    assert repro_kit("collect", "train.py").exit_code == 0
    assert [path for path in left if path.exists()] == []
    assert [path for path in kept if not path.exists()] == []


def test_a_case_that_cannot_be_written_is_one_sentence(work, fakes, repro_kit):
    (work / "train.repro").write_text("a file")
    result = repro_kit("collect", "train.py")
    assert result.exit_code == 2
    assert "choose another place with --output" in result.stderr
    assert time.time() - (work / "train.repro").stat().st_mtime < 60 and (work / "train.repro").is_file()
