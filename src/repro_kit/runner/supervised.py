"""Run a command under a supervisor, which ends the command and all its descendants when repro-kit ends."""

from __future__ import annotations

import errno
import marshal
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from repro_kit.errors import StageError, UsageError
from repro_kit.probe.repro_probe.protocol.failure_data import signal_name
from repro_kit.runner.places import held, instead_of
from repro_kit.runner.write_orders import in_force

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


PROBE = Path(__file__).parent.parent / "probe"  # for the PYTHONPATH of the user's interpreter

_FULL = 16 << 10  # bytes; a disk with less free space counts as full
_TICK = 0.2  # seconds between calls of `on_tick`


class EndedEarly(Exception):
    """What runs is taken never to end: raised by `on_tick` or `on_interrupt`, and noted as a time-out."""

    def __init__(self, seconds: float) -> None:
        """`seconds` that it ran."""
        super().__init__()
        self.seconds = seconds


def with_probe(env: Mapping[str, str]) -> dict[str, str]:
    """`env` with the probe first on its PYTHONPATH. What the user put there stays: torch may be there."""
    return {**env, "PYTHONPATH": os.pathsep.join(filter(None, [_named(PROBE), env.get("PYTHONPATH")]))}


def _named(directory: Path) -> str:
    """`directory` as PYTHONPATH can name it: by a link, if the path has the mark that parts two paths."""
    if os.pathsep not in str(directory):
        return str(directory)
    link = instead_of(directory)
    if not link.is_symlink() or link.readlink() != directory:
        link.parent.mkdir(parents=True, exist_ok=True)
        made = link.with_name(f"{link.name}-{os.getpid()}")
        made.symlink_to(directory)
        made.replace(link)
    return str(link)


def launch(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,
    stdout: Path,
    stderr: Path,
    on_tick: Callable[[float], None] | None = None,
    on_interrupt: Callable[[float], None] | None = None,
    memory: int | None = None,
    file_size: int | None = None,
) -> Run:
    """Run `argv` with its output in files.

    The command and all its descendants are ended after `timeout` seconds, when together they use more than `memory`
    bytes, when the command itself ends, and when this process is interrupted or ends for any reason. No file that
    they write grows over `file_size` bytes. When the supervisor is killed, the command is run once more.

    `on_tick` and `on_interrupt` (at Ctrl-C) get the seconds so far; with EndedEarly they end the run as a time-out.

    Raises ReproKitError when the command cannot be started. Raises OSError when it failed and the disk is full: its
    failure says nothing then.
    """
    for path in (stdout, stderr):
        path.parent.mkdir(parents=True, exist_ok=True)
    limits = Limits(timeout, memory, file_size)
    try:
        with in_force(env):
            try:
                run = _run(argv, cwd, env, limits, stdout, stderr, on_tick, on_interrupt)
            except SupervisorDied:
                run = _run(argv, cwd, env, limits, stdout, stderr, on_tick, on_interrupt)
    except EndedEarly as early:
        return Run(None, None, timed_out=True, seconds=early.seconds, peak_memory=0)
    except SupervisorDied as died:
        raise StageError(f"{argv[0]} was ended twice: {died}; run it again.") from died
    if not run.ok and _is_full(stdout.parent):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(stdout.parent))
    return run


def _is_full(directory: Path) -> bool:
    """Whether the disk of `directory` has no space left for this user."""
    disk = os.statvfs(directory)
    free = disk.f_bfree if os.getuid() == 0 else disk.f_bavail
    return disk.f_blocks > 0 and free * disk.f_frsize < _FULL


def _run(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    limits: Limits,
    stdout: Path,
    stderr: Path,
    on_tick: Callable[[float], None] | None,
    on_interrupt: Callable[[float], None] | None,
) -> Run:
    started = time.monotonic()
    with (
        stdout.open("wb") as out,
        stderr.open("wb") as err,
        SupervisedCommand(argv, cwd=cwd, env=env, stdout=out, stderr=err, limits=limits, measure=True) as command,
    ):
        try:
            while not command.wait(_TICK):
                if on_tick is not None:
                    on_tick(time.monotonic() - started)
        except KeyboardInterrupt:
            if on_interrupt is not None:
                on_interrupt(time.monotonic() - started)
            raise
        try:
            return command.report()
        except OSError as error:
            raise UsageError(f"Cannot start {argv[0]}: {error.strerror}.") from error


def exit_name(run: Run) -> str:
    """Return the end of a run in words: ``exit status 1``, ``killed by SIGSEGV``, ``still running after 60 s``."""
    if run.over_memory:
        return f"ended when it had taken {run.peak_memory / 2**30:.1f} GiB of memory"
    if run.timed_out:
        return f"still running after {run.seconds:.0f} s"
    if run.signal:
        return f"killed by {run.signal}"
    return f"exit status {run.exit_status}"
