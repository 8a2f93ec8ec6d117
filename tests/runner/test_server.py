"""A server that does not start is told from one that cannot."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from repro_kit.errors import StageError
from repro_kit.runner.compiler import probes
from repro_kit.runner.server import ServerDied, ServerProcess


def interpreter(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo 'No CUDA runtime is found' >&2; exec sleep 60", "did not import torch within 1 s"),
        ("echo 'ImportError: libtorch.so is missing' >&2; exit 1", "cannot import torch (ImportError: libtorch.so"),
    ],
)
@pytest.mark.slow
def test_slow_is_told_from_broken(tmp_path: Path, text: str, said: str) -> None:
    server = ServerProcess(interpreter(tmp_path / "python", text), how="fork", start_seconds=1.0)
    with pytest.raises(StageError, match=r"again|repair") as raised:
        server.send({"prepare": {}})
    assert said in str(raised.value)


def test_what_is_cancelled_before_the_server_is_ready_waits_for_nothing(tmp_path: Path) -> None:
    """At Ctrl-C every request is cancelled; the server may take minutes until it is ready."""
    server = ServerProcess(interpreter(tmp_path / "python", "exec sleep 1000"), how="fork", start_seconds=0.1)
    server.begin()
    try:
        server.send({"cancel": 1})
        server.send({"expire": 1})
    finally:
        server.stop()
    server.send({"cancel": 1})


@pytest.mark.torch
def test_a_server_that_is_stopped_before_it_is_ready_starts_again() -> None:
    server = ServerProcess(sys.executable, how="spawn", cache=probes(sys.executable))
    server.begin()
    server.stop()
    with pytest.raises(ServerDied, match="not running"):
        server.receive(0.0)
    try:
        server.send({"prepare": {}})  # waits until the new one is ready
        assert not server.is_readable(0.0)
    finally:
        server.stop()


@pytest.mark.parametrize("started", [False, True])
def test_a_server_has_the_kernels_that_are_shared_before_and_after_its_start(tmp_path: Path, started: bool) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "kernel.so").write_text("x")
    waits = 'until [ -e "$3/libraries/kernel.so" ]; do sleep 0.02; done; echo "ImportError: it is there" >&2; exit 1'
    server = ServerProcess(interpreter(tmp_path / "python", waits), how="fork", start_seconds=60.0)
    if started:
        server.begin()
    server.share(tmp_path / "kernels")
    with pytest.raises(StageError, match="it is there"):
        server.send({"prepare": {}})
