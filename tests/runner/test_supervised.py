"""What was started ends: with repro-kit, however that ends, at its limits, and when the command itself has ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from repro_kit.errors import ReproKitError
from repro_kit.runner import supervised
from repro_kit.runner.supervised import Run, launch
from samples import hard_to_kill
from samples.hard_to_kill import start, wait_until


@pytest.fixture
def mark() -> Iterator[str]:
    """A word on the command line of every process of the test; none of them outlives it."""
    word = f"mark-{uuid.uuid4().hex}"
    yield word
    for pid in hard_to_kill.marked(word):
        os.kill(pid, signal.SIGKILL)


def others(mark: str, process: subprocess.Popen[str]) -> list[int]:
    """The processes with `mark`, but for the launcher itself."""
    return [pid for pid in hard_to_kill.marked(mark) if pid != process.pid]


def in_this_process(place: Path, argv: list[str], **limits: float) -> Run:
    settings = {"timeout": 60, **limits}
    return launch(argv, cwd=place, env=os.environ, stdout=place / "out", stderr=place / "err", **settings)


@pytest.mark.parametrize("form", hard_to_kill.FORMS)
@pytest.mark.parametrize("whom", hard_to_kill.VICTIMS)
def test_nothing_outlives_a_kill(tmp_path: Path, form: str, whom: str) -> None:
    assert hard_to_kill.outlived(tmp_path, form, whom) == []


@pytest.mark.parametrize("form", hard_to_kill.FORMS)
def test_nothing_outlives_the_time_limit(tmp_path: Path, mark: str, form: str) -> None:
    ran = in_this_process(tmp_path, hard_to_kill.command(form, mark), timeout=0.5)
    assert (ran.timed_out, ran.exit_status, ran.signal) == (True, None, None)
    assert hard_to_kill.marked(mark) == []


def test_the_time_limit_holds_while_repro_kit_is_stopped(tmp_path: Path, mark: str) -> None:
    process = start(tmp_path, hard_to_kill.command("a session of its own", mark), timeout=2)
    assert wait_until(lambda: len(others(mark, process)) == 2)
    os.kill(process.pid, signal.SIGSTOP)
    try:
        assert wait_until(lambda: not others(mark, process))
    finally:
        os.kill(process.pid, signal.SIGCONT)
    out, _ = process.communicate()
    assert "timed_out=True" in out


def test_a_daemon_ends_with_its_command(tmp_path: Path, mark: str) -> None:
    code = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)"
    assert in_this_process(tmp_path, [sys.executable, "-c", code, mark]).ok
    assert hard_to_kill.marked(mark) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGPIPE])
def test_the_signal_is_reported(tmp_path: Path, number: signal.Signals) -> None:
    ran = in_this_process(tmp_path, ["/bin/sh", "-c", f"kill -{number} $$"])
    assert (ran.signal, ran.exit_status) == (number.name, None)


@pytest.mark.parametrize("status", [0, 1, 125, 255])
def test_the_exit_status_is_reported(tmp_path: Path, status: int) -> None:
    ran = in_this_process(tmp_path, ["/bin/sh", "-c", f"exit {status}"])
    assert (ran.exit_status, ran.signal, ran.timed_out) == (status, None, False)


def test_one_supervisor_that_is_killed_changes_nothing(tmp_path: Path, mark: str) -> None:
    code = "import os, pathlib, time\nplace = pathlib.Path('first')\nagain = place.exists()\nplace.touch()\n"
    code += "time.sleep(0 if again else 600)\nprint('done')"
    process = start(tmp_path, [sys.executable, "-c", code, mark])
    while not (tmp_path / "first").exists():
        time.sleep(0.02)
    os.kill(hard_to_kill.supervisors(process.pid)[0], signal.SIGKILL)
    out, _ = process.communicate()
    assert "exit_status=0" in out
    assert (tmp_path / "out").read_text() == "done\n"


def test_memory_of_all_descendants_counts(tmp_path: Path, mark: str) -> None:
    code = "import os, time\nif os.fork() == 0: os.setsid()\nheld = bytearray(150 << 20)\ntime.sleep(600)"
    ran = in_this_process(tmp_path, [sys.executable, "-c", code, mark], memory=250 << 20)
    assert ran.over_memory and ran.exit_status is None
    assert hard_to_kill.marked(mark) == []


def test_a_command_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ReproKitError, match=r"^Cannot start nothing-of-the-kind: No such file or directory\.$"):
        in_this_process(tmp_path, ["nothing-of-the-kind"])


def test_the_command_gets_what_it_would_get(tmp_path: Path) -> None:
    """No stray descriptor, no signal ignored that was not, a session of its own, and its own working directory."""
    code = (
        "import os, signal\n"
        "print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])\n"
        "print(os.getcwd(), os.getsid(0) == os.getpid())\n"
        "print([int(line.split()[1], 16) for line in open('/proc/self/status') if line.startswith('SigBlk')])\n"
    )
    ran = in_this_process(tmp_path, [sys.executable, "-I", "-c", code])
    assert ran.ok
    assert (tmp_path / "out").read_text().splitlines() == ["[0, 1, 2]", f"{tmp_path} True", "[0]"]
    in_this_process(tmp_path, ["/bin/sh", "-c", "grep SigIgn /proc/self/status"])
    plain = subprocess.run(["grep", "SigIgn", "/proc/self/status"], capture_output=True, text=True, check=True)
    assert (tmp_path / "out").read_text() == plain.stdout


def test_a_tool_gets_its_input_and_gives_its_output() -> None:
    done = supervised.run(["/bin/sh", "-c", "cat; echo problem >&2; exit 3"], timeout=60, input="tëxt")
    assert (done.stdout, done.stderr, done.returncode) == ("tëxt", "problem\n", 3)


def test_a_tool_that_does_not_end_is_ended(mark: str) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        supervised.run(hard_to_kill.command("a daemon (double fork)", mark), timeout=0.5)
    assert hard_to_kill.marked(mark) == []


def test_an_output_without_end_stops_at_the_limit() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        supervised.run(["/bin/sh", "-c", "while :; do echo more; done"], timeout=0.5)
