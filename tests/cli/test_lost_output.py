"""Output that cannot be written: one sentence for a full device, silence for a reader that has gone."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from repro_kit.cli.main import cli
from repro_kit.session.system import sentence_of


def run(*words: str, out: int | object = subprocess.PIPE, err: int | object = subprocess.PIPE) -> tuple[int, str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "repro_kit", *words]
    done = subprocess.run(command, env=env, stdout=out, stderr=err, text=True, check=False)  # type: ignore[call-overload]
    return done.returncode, done.stderr or ""


@pytest.mark.parametrize("words", [["--help"], ["collect", "--help"], ["--version"], ["show", "nowhere", "--json"]])
def test_a_full_device_is_one_sentence(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        status, said = run(*words, out=full)
    assert status and said.endswith("error: The output cannot be written: No space left on device.\n"), said
    assert "Traceback" not in said


def test_errors_that_cannot_be_written_are_silence() -> None:
    with Path("/dev/full").open("w") as full:
        assert run("nosuch", err=full)[0] == 1


def test_a_reader_that_has_gone_is_silence() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        status, said = run("collect", "--help", out=write_end)
    finally:
        os.close(write_end)
    assert (status, said) == (1, "")


def test_the_help_itself_is_as_before() -> None:
    assert run("--help")[0] == 0 and cli.name == "repro-kit"


@pytest.mark.parametrize("closed", ["1", "2"])
def test_a_stream_that_the_shell_has_closed_is_silence(closed: str, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for words in ("completion bash", "nosuch", "env --python /bin/true"):
        line = f'"$0" -m repro_kit {words} {closed}>&-'
        done = subprocess.run(["sh", "-c", line, sys.executable], env=env, cwd=tmp_path, capture_output=True, text=True)
        assert "unexpected" not in done.stderr and "Exception" not in done.stderr, (words, done.stderr)


def test_a_file_over_the_limit_of_the_shell_is_one_sentence(tmp_path: Path) -> None:
    for names, where in (((), "A file would"), (("/x/a.so", None, "b.so"), "A file (/x/a.so) would")):
        error = OSError(errno.EFBIG, os.strerror(errno.EFBIG), *names)
        assert where in str(sentence_of(error, tmp_path)) and "ulimit -f" in str(sentence_of(error, tmp_path))
