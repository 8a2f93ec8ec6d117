"""Notice that all ranks of a query wait for ever, long before the query's time-out."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable

STUCK = 4.0  # seconds in which no rank works
_EVERY = 0.25  # seconds between two looks
_LITTLE = 0.003  # CPU seconds between two looks, no more than the look itself takes
_TASKS = "/proc/self/task"


def watch_ranks(rank: int, ranks: int, peers: Collection[int], when_stuck: Callable[[], None] | None) -> None:
    """Start a thread that says for this process, the rank `rank`, whether it works, in files of the current directory.

    Every rank touches its own file as long as it works: as long as it uses the CPU, or has a child such as a C++
    compiler. The ranks wait for ever once no file was touched for some seconds.

    The thread calls `when_stuck` when none of the `ranks` ranks works any more, and ends. `peers`: processes that are
    no children at work. Where the system does not show the children of a process, nothing is done.
    """
    if child_processes(peers) is not None:
        files = [os.path.abspath(f"rank-{number}-works") for number in range(ranks)]
        threading.Thread(target=_watch, args=(files[rank], files, peers, when_stuck), daemon=True).start()


def _watch(own: str, files: Collection[str], peers: Collection[int], when_stuck: Callable[[], None] | None) -> None:
    used = 0.0
    while True:
        now = time.process_time()
        if now - used > _LITTLE or child_processes(peers):
            with open(own, "w", encoding="ascii"):
                pass
        elif when_stuck is not None and _last_worked(files) < time.time() - STUCK:
            when_stuck()
            return
        used = now
        time.sleep(_EVERY)


def _last_worked(files: Collection[str]) -> float:
    """Return the last time at which a rank worked; now, as long as a rank has not begun."""
    try:
        return max(os.stat(file).st_mtime for file in files)
    except OSError:
        return time.time()


def child_processes(without: Iterable[int] = ()) -> set[int] | None:
    """Return the children of this process but those in `without`; None where the system does not show them."""
    found: set[int] = set()
    try:
        for task in os.listdir(_TASKS):
            with open(os.path.join(_TASKS, task, "children"), encoding="ascii") as file:
                found.update(map(int, file.read().split()))
    except OSError:
        return None
    return found.difference(without)
