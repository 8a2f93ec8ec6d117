"""Processes that a query leaves behind, however far they have gone from it: found, ended and reaped."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterable

_PR_SET_CHILD_SUBREAPER = 36


def adopt() -> None:
    """Become the parent of every descendant that loses its own (a daemon), where the system offers that."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end(known: Iterable[int], place: str | None = None) -> None:
    """End adopted processes: all children of this process but `known`, with `place` only those that work there.

    Ending one may bring its children, which are ended in turn.
    """
    known = set(known)
    while True:
        found = [pid for pid in _children() if pid not in known and (place is None or _works_in(pid, place))]
        if not found:
            return
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except OSError:  # another user's, say
                known.add(pid)


def _children() -> list[int]:
    pid = os.getpid()
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:  # a system without it adopts nothing either
        return []


def _works_in(pid: int, place: str) -> bool:
    """Whether its directory or its environment names `place`; one that has ended has neither, and is reaped."""
    inside = place.encode()
    try:
        cwd = os.readlink(f"/proc/{pid}/cwd".encode())
        with open(f"/proc/{pid}/environ", "rb") as file:
            return cwd == inside or cwd.startswith(inside + b"/") or inside + b"/" in file.read()
    except OSError:
        return True
