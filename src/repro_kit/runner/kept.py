"""Start a command that cannot outlive repro-kit: under `keeper.py`, which ends it and all that descends from it."""

from __future__ import annotations

import marshal
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from repro_kit.runner.scratch import held

_KEEPER = Path(__file__).with_name("keeper.py")
_PATIENCE = 30.0  # seconds that ending everything may take before the keeper itself is killed


class KeeperDied(Exception):
    """Somebody killed the keeper; the command was ended, and nobody knows how it would have ended."""


@dataclass(frozen=True)
class Limits:
    """What a command may take; it is ended when it takes more. `file` in bytes, of one file that it writes."""

    seconds: float | None = None
    memory: int | None = None
    file: int | None = None


@dataclass(frozen=True)
class CommandReport:
    """How a command ended: `status` is its exit code (negative: the signal), None when it was ended from outside."""

    status: int | None
    timed_out: bool
    over_memory: bool
    peak_memory: int
    seconds: float


class KeptCommand:
    """A command under way. A context manager: at its end nothing of the command is left."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stdout: int | IO[bytes] = subprocess.DEVNULL,
        stderr: int | IO[bytes] = subprocess.DEVNULL,
        limits: Limits | None = None,
        measure: bool = False,
    ) -> None:
        """Start it; with `measure` its memory is looked at, which a memory limit needs."""
        limits = limits or Limits()
        self._told, self._ended = b"", False
        self._line, keeper_end = socket.socketpair()
        with keeper_end:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_KEEPER), str(keeper_end.fileno())],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                pass_fds=(keeper_end.fileno(),),
                start_new_session=True,  # Ctrl-C is for repro-kit, which ends the command
            )
        order = marshal.dumps(
            {
                "argv": [os.fspath(word) for word in argv],
                "cwd": str(cwd),
                "env": dict(env),
                "timeout": limits.seconds,
                "memory": limits.memory,
                "file_size": limits.file,
                "measure": measure or limits.memory is not None,
                "scratch": [str(path) for path in held()],
            }
        )
        with suppress(BrokenPipeError, ConnectionResetError):  # a keeper that was killed: `report` says it
            self._line.sendall(len(order).to_bytes(8, "big") + order)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the command's end, at most so long; whether it has ended."""
        while not self._ended:
            if not select.select([self._line], [], [], seconds)[0]:
                return False
            try:
                piece = self._line.recv(1 << 16)
            except ConnectionResetError:
                piece = b""
            self._told += piece
            self._ended = not piece
        return True

    def report(self) -> CommandReport:
        """How it ended. Raises OSError when it could not be started, KeeperDied when that is not known."""
        self.wait()
        try:
            report: dict[str, Any] = marshal.loads(self._told)
        except (EOFError, ValueError, TypeError):
            raise KeeperDied("the process that kept watch over the command was killed") from None
        if "problem" in report:
            raise OSError(*report["problem"])
        return CommandReport(**report)

    def end(self) -> None:
        """End the command and all that descends from it, and wait until that is done."""
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_WR)
        try:
            if not self.wait(_PATIENCE):  # both of its processes hold the line
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        finally:
            self._line.close()


def run(
    argv: Sequence[str],
    *,
    timeout: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    input: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end and take in what it says: `subprocess.run` for what must not outlive repro-kit.

    Raises OSError when it cannot be started, subprocess.TimeoutExpired when it does not end in `timeout` seconds.
    """
    with KeptCommand(
        argv,
        cwd=cwd or Path.cwd(),
        env=os.environ if env is None else env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        limits=Limits(timeout),
    ) as kept:
        out, err = kept.process.communicate(input.encode())
        try:
            report = kept.report()
        except KeeperDied as died:
            raise ChildProcessError(0, str(died)) from died
    if report.timed_out or report.status is None:
        raise subprocess.TimeoutExpired(list(argv), timeout)
    return subprocess.CompletedProcess(
        list(argv), report.status, out.decode(errors="replace"), err.decode(errors="replace")
    )
