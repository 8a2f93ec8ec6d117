"""Run a command to its end or its time-out, and return its exit status and the peak memory of its process tree."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from repro_kit.errors import StageError, UsageError
from repro_kit.runner.places import instead_of
from repro_kit.runner.supervised import Limits, SupervisedCommand, SupervisorDied
from repro_kit.runner.supervised import Run as Run  # noqa: PLC0414 - for those who import it from here
from repro_kit.runner.write_orders import in_force

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
