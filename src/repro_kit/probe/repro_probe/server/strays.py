"""Find, kill and reap the processes that a query leaves behind, even if they have become daemons."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterable

from repro_probe.run.rank_watch import child_processes

_PR_SET_CHILD_SUBREAPER = 36


def adopt_strays() -> None:
    """Become the parent of every descendant that loses its parent, such as a daemon (Linux only)."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_strays(spared: Iterable[int], directory: str | None = None) -> None:
    """End adopted processes: all children of this process but `spared`, with `directory` only those that work there.

    Ending one may bring its children, which are ended in turn.
    """
    spared = set(spared)
    while True:
        strays = [pid for pid in child_processes(spared) or () if directory is None or _works_in(pid, directory)]
        if not strays:
            return
        for pid in strays:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except OSError:  # the process belongs to another user, for example
                spared.add(pid)


def _works_in(pid: int, directory: str) -> bool:
    """Whether its directory or its environment names `directory`; one that has ended has neither, and is reaped."""
    path = directory.encode()
    try:
        cwd = os.readlink(f"/proc/{pid}/cwd".encode())
        with open(f"/proc/{pid}/environ", "rb") as file:
            return cwd == path or cwd.startswith(path + b"/") or path + b"/" in file.read()
    except OSError:
        return True
