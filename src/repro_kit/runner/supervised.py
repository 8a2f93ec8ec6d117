"""Start a command under `supervisor.py`, which ends the command and all its descendants when repro-kit ends."""

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

from repro_kit.probe.repro_probe.protocol.signal_names import signal_name
from repro_kit.runner.scratch import held

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_PATIENCE = 30.0  # seconds that ending everything may take before the supervisor itself is killed


class SupervisorDied(Exception):
    """The supervisor was killed. The command was ended too, so its result is unknown."""


@dataclass(frozen=True)
class Limits:
    """The limits at which a command is ended: `memory` in bytes, and `file` in bytes for each file that it writes."""

    seconds: float | None = None
    memory: int | None = None
    file: int | None = None


@dataclass(frozen=True)
class Run:
    """What happened when a command or a script ran. `exit_status` is None after a signal or at a limit."""

    exit_status: int | None
    signal: str | None
    timed_out: bool
    seconds: float
    peak_memory: int  # bytes
    over_memory: bool = False  # ended at the memory limit
    refused: tuple[str, ...] = ()  # what the guard did not let a script do
    problem: str = ""  # why a script could not be run

    @property
    def ok(self) -> bool:
        """Whether the command ended by itself with status 0."""
        return self.exit_status == 0


class SupervisedCommand:
    """A running command. As a context manager, it leaves no process of the command at its end."""

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
        """Start the command. `measure` watches its memory, as a memory limit does too."""
        limits = limits or Limits()
        self._told, self._ended = b"", False
        self._line, supervisor_end = socket.socketpair()
        with supervisor_end:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SUPERVISOR), str(supervisor_end.fileno())],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                pass_fds=(supervisor_end.fileno(),),
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
        with suppress(BrokenPipeError, ConnectionResetError):  # the supervisor was killed: `report` says so
            self._line.sendall(len(order).to_bytes(8, "big") + order)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the command's end, for at most `seconds`. Return whether it has ended."""
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

    def report(self) -> Run:
        """Return how the command ended.

        Raises OSError when it did not start, SupervisorDied when the supervisor was killed.
        """
        report = self.raw_report()
        status = report.pop("status")
        died_of = signal_name(-status) if status is not None and status < 0 else None
        return Run(None if died_of else status, died_of, **report)

    def raw_report(self) -> dict[str, Any]:
        """Return what the supervisor reports; its `status` is negative after a signal. Raises as `report` does."""
        self.wait()
        try:
            report: dict[str, Any] = marshal.loads(self._told)
        except (EOFError, ValueError, TypeError):
            raise SupervisorDied("the process that watched the command was killed") from None
        if "problem" in report:
            raise OSError(*report["problem"])
        return report

    def end(self) -> None:
        """End the command and all its descendants, and wait until they have ended."""
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_WR)
        try:
            if not self.wait(_PATIENCE):  # neither the watcher nor the guard closed the socket
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
    """Run a tool to its end and return its output: a `subprocess.run` for tools that must not outlive repro-kit.

    Raises OSError when the tool cannot be started, subprocess.TimeoutExpired when it runs longer than `timeout`
    seconds.
    """
    with SupervisedCommand(
        argv,
        cwd=cwd or Path.cwd(),
        env=os.environ if env is None else env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        limits=Limits(timeout),
    ) as command:
        out, err = command.process.communicate(input.encode())
        try:
            status = command.raw_report()["status"]
        except SupervisorDied as died:
            raise ChildProcessError(0, str(died)) from died
    if status is None:
        raise subprocess.TimeoutExpired(list(argv), timeout)
    return subprocess.CompletedProcess(list(argv), status, out.decode(errors="replace"), err.decode(errors="replace"))
