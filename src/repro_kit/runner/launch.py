"""Run a command to its end or its time-out: exit status, output, peak memory of the whole process tree."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from repro_kit.errors import Exit, ReproKitError
from repro_kit.runner.orders import in_force

PROBE = Path(__file__).parent.parent / "probe"

_POLL = 0.2  # seconds between looks at the process tree


@dataclass(frozen=True)
class Run:
    """How a command ended. `exit_status` is None after a signal or a time-out; `peak_memory` in bytes."""

    exit_status: int | None
    signal: str | None
    timed_out: bool
    seconds: float
    peak_memory: int
    over_memory: bool = False  # ended for taking more than it may

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with status 0."""
        return self.exit_status == 0


def launch(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,
    stdout: Path,
    stderr: Path,
    on_tick: Callable[[float], None] | None = None,
    memory: int | None = None,
    file_size: int | None = None,
) -> Run:
    """Run `argv`, its output to files; kill its whole tree after `timeout` seconds, or when interrupted.

    So it is where the tree takes more than `memory` bytes. No file that it writes grows over `file_size` bytes.

    Raises ReproKitError when the command cannot be started.
    """
    for path in (stdout, stderr):
        path.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with stdout.open("wb") as out, stderr.open("wb") as err, in_force(env):
        try:
            process = psutil.Popen(
                list(argv),
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except OSError as error:
            raise ReproKitError(f"Cannot start {argv[0]}: {error.strerror}.", Exit.USAGE) from error
        if file_size is not None:
            _limit_files(process, file_size)
        peak, timed_out, over = 0, False, False
        try:
            while True:
                peak = max(peak, _tree_memory(process))
                if memory is not None and peak > memory:
                    over = True
                    break
                with suppress(psutil.TimeoutExpired, subprocess.TimeoutExpired):
                    process.wait(timeout=_POLL)
                    break
                elapsed = time.monotonic() - started
                if on_tick is not None:
                    on_tick(elapsed)
                if elapsed > timeout:
                    timed_out = True
                    break
        finally:
            kill_tree(process)
    status = process.returncode
    killed = timed_out or over
    died_of = signal.Signals(-status).name if status is not None and status < 0 and not killed else None
    return Run(
        exit_status=None if killed or died_of else status,
        signal=died_of,
        timed_out=timed_out,
        seconds=time.monotonic() - started,
        peak_memory=peak,
        over_memory=over,
    )


def _limit_files(process: psutil.Process, size: int) -> None:
    if hasattr(process, "rlimit"):  # Linux
        with suppress(psutil.Error):
            process.rlimit(psutil.RLIMIT_FSIZE, (size, size))
            process.rlimit(psutil.RLIMIT_CORE, (0, 0))


def _tree_memory(process: psutil.Process) -> int:
    total = 0
    with suppress(psutil.Error):
        for member in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):
                total += member.memory_info().rss
    return total


def kill_tree(process: psutil.Popen) -> None:
    """Kill `process`, its descendants and whatever is left of its session."""
    members: list[psutil.Process] = []
    with suppress(psutil.Error):
        members = process.children(recursive=True)
    for member in members:
        with suppress(psutil.Error):
            member.kill()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(psutil.Error, subprocess.TimeoutExpired):
        process.wait(timeout=10)


def exit_name(run: Run) -> str:
    """``exit status 1``, ``killed by SIGSEGV``, ``still running after 60 s``."""
    if run.over_memory:
        return f"ended when it had taken {run.peak_memory / 2**30:.1f} GiB of memory"
    if run.timed_out:
        return f"still running after {run.seconds:.0f} s"
    if run.signal:
        return f"killed by {run.signal}"
    return f"exit status {run.exit_status}"
