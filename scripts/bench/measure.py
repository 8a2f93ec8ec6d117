"""Run a command to its end or to a time limit, and measure what it and all its descendants take.

The command runs under repro-kit's own supervisor, which adopts daemons and leaves nothing running. Each process is
waited for by a process above it, so the CPU seconds of the children of this process are those of the whole tree.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from repro_kit.runner.supervised import Limits, SupervisedCommand

_TICK = 0.5  # seconds between two calls of `on_tick`


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it took."""

    code: int | None  # negative: the signal; None: the command was stopped at the limit
    seconds: float
    cpu: float  # seconds, user and system, of all descendants
    stdout: str
    stderr: str


def measured(
    command: Sequence[str | Path],
    directory: Path,
    env: Mapping[str, str],
    limit: float | None = None,
    on_tick: Callable[[int], None] | None = None,
) -> Ended:
    """Run the command in `directory`, which gets its output. `on_tick` gets the process id above the command's."""
    out, err = directory / "stdout.txt", directory / "stderr.txt"
    started, before = time.monotonic(), _cpu_of_children()
    with (
        out.open("wb") as stdout,
        err.open("wb") as stderr,
        SupervisedCommand(
            list(map(str, command)), cwd=directory, env=env, stdout=stdout, stderr=stderr, limits=Limits(limit)
        ) as running,
    ):
        while not running.wait(_TICK):
            if on_tick is not None:
                on_tick(running.process.pid)
        code = running.raw_report()["status"]
    seconds, cpu = time.monotonic() - started, _cpu_of_children() - before
    return Ended(code, seconds, cpu, out.read_text(errors="replace"), err.read_text(errors="replace"))


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
