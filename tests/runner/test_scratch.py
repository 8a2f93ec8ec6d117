"""Scratch directories: gone at the end; those of the dead are removed, those of the living are not."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from repro_kit.runner.places import Scratch, remove_abandoned, scratch
from samples.hard_to_kill import wait_until

OWNER = """
import sys, time
from pathlib import Path
from repro_kit.runner.places import Scratch
made = Scratch(Path(sys.argv[1]))
(made.path / "deep").mkdir()
(made.path / "deep" / "file").write_text("text")
(made.path / "deep").chmod(0)
print(made.path, flush=True)
time.sleep(600)
"""

WORKER = """
import os, sys
from pathlib import Path
from repro_kit.runner.places import Scratch
from repro_kit.runner.supervised import launch
place = Scratch(Path(sys.argv[1])).path
print(place, flush=True)
launch(["/bin/sh", "-c", "touch begun; exec sleep 600"], cwd=place, env=os.environ, timeout=600,
       stdout=place / "out", stderr=place / "err")
"""


@pytest.fixture
def owner(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    yield process, Path(process.stdout.readline().strip())
    process.kill()
    process.communicate()


def test_only_what_the_dead_left_is_removed(tmp_path, owner):
    process, path = owner
    remove_abandoned(tmp_path)
    assert (path / "deep").exists()
    with scratch(tmp_path) as mine:
        assert path.exists()
        process.kill()
        process.wait()
        remove_abandoned(tmp_path)
        assert not path.exists() and mine.is_dir()
    assert list(tmp_path.iterdir()) == []


def test_the_next_directory_takes_the_abandoned_away(tmp_path, owner):
    process, path = owner
    process.kill()
    process.wait()
    with scratch(tmp_path):
        assert not path.exists()


def test_what_a_killed_process_holds_goes_with_the_command_that_it_ran(tmp_path):
    with subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        path = Path(process.stdout.readline().strip())
        assert wait_until((path / "begun").exists, seconds=600)
        process.kill()
    assert wait_until(lambda: not path.exists())


def test_what_only_looks_alike_stays(tmp_path):
    others = [
        "repro-kit",
        "repro-kit-notes",
        "repro-kit-my_notes",
        "repro-kit-1-short",
        "run-1",
        "my-repro-kit-1-abcdefgh",
    ]
    for name in others:
        (tmp_path / name).mkdir()
    (tmp_path / "repro-kit-1-abcdefgh").symlink_to(tmp_path / "repro-kit-notes")
    (tmp_path / "repro-kit-2-abcdefgh").write_text("a file")
    remove_abandoned(tmp_path)
    assert {entry.name for entry in tmp_path.iterdir()} == {*others, "repro-kit-1-abcdefgh", "repro-kit-2-abcdefgh"}


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
def test_what_is_another_user_s_stays(tmp_path):
    made = tmp_path / "repro-kit-1-abcdefgh"
    made.mkdir()
    os.chown(made, 12345, 12345)
    remove_abandoned(tmp_path)
    assert made.is_dir()


def test_what_a_script_made_unreadable_goes(tmp_path):
    with scratch(tmp_path) as place:
        (place / "a" / "b").mkdir(parents=True)
        (place / "a" / "b" / "file").touch()
        (place / "a" / "b").chmod(0)
        (place / "a").chmod(0o500)
    assert list(tmp_path.iterdir()) == []


def test_many_at_once_are_different(tmp_path):
    made = [Scratch(tmp_path) for _ in range(20)]
    assert len({it.path for it in made}) == 20 and all(it.path.is_dir() for it in made)
    for it in made:
        it.remove()
    assert list(tmp_path.iterdir()) == []


def test_it_lies_with_temporary_files_by_default():
    with scratch() as place:
        assert place.parent == Path(tempfile.gettempdir()).resolve()
        assert place.stat().st_mode & 0o777 == 0o700
