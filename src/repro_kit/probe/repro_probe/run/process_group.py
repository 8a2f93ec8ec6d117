"""Join the process group that a program's collectives name: a fake one, or one of several real processes.

Every rank of a real group runs the same program, with other random values. The ranks meet through a file, and talk
over the loopback interface.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import cast

from repro_probe.protocol.recipe_data import FAKE, GROUP_DEFAULTS, GroupData, RecipeData

#: The network interface of the machine itself, by platform.
_LOOPBACK = {"linux": "lo", "darwin": "lo0"}
#: The operators whose results may be read only after `wait_tensor`: until then another thread writes them.
_COLLECTIVE = re.compile(r"torch\.ops\._c10d_functional(?:_autograd)?\.(?!wait_tensor)")
_WAIT = "torch.ops._c10d_functional.wait_tensor"
_LOOK = 0.05  # seconds between two looks at whether the judged rank lives
_MEETING = "ranks"  # the file through which the ranks meet


def whole(group: GroupData) -> GroupData:
    """Return `group` with all its fields."""
    return cast(GroupData, {**GROUP_DEFAULTS, **group})


def is_real(group: GroupData | None) -> bool:
    """Whether each rank of `group` is a separate process."""
    return group is not None and whole(group)["backend"] != FAKE


def runs_peer(group: GroupData | None) -> bool:
    """Whether this rank of `group` runs the program's peer in place of its graph."""
    return is_real(group) and group is not None and whole(group)["rank"] in whole(group)["others"]


def start_peers(group: GroupData, passes: Callable[[int], bool]) -> set[int]:
    """Fork a process for each rank of `group` but the judged one, which calls `passes` with its rank; return their ids.

    This process becomes the judged rank. It must have started no thread. The others live as long as it does if they
    pass: a rank that is done would else close the connections that the judged rank still waits on. A rank that fails
    does close them, so that the judged rank raises, and is not taken to wait.
    """
    judged, peers = os.getpid(), set()
    for rank in range(group["size"]):
        if rank == whole(group)["rank"]:
            continue
        peer = os.fork()
        if peer:
            peers.add(peer)
            continue
        try:
            passed = passes(rank)
            while passed and os.getppid() == judged:
                time.sleep(_LOOK)
        finally:
            os._exit(0)
    return peers


def join(recipe: RecipeData, *, fake: bool = False) -> None:
    """Make the process group of `recipe` in this process, with its subgroups. With `fake`, whatever its backend is.

    In a real group the seed of `recipe` becomes another one for each rank. A process that is in a group stays in it.
    """
    if recipe["group"] is None:
        return
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if dist.is_initialized():
        return
    group = whole(recipe["group"])
    rank, size = group["rank"], group["size"]
    if fake or group["backend"] == FAKE:
        dist.init_process_group(FAKE, store=FakeStore(), rank=rank, world_size=size)
    else:
        recipe["seed"] += rank
        if sys.platform in _LOOPBACK:
            os.environ["GLOO_SOCKET_IFNAME"] = _LOOPBACK[sys.platform]
        meeting = f"file://{os.path.abspath(_MEETING)}"
        dist.init_process_group(group["backend"], init_method=meeting, rank=rank, world_size=size)
    for ranks in group["subgroups"]:
        dist.new_group(list(ranks))


def read_too_early(text: str) -> str | None:
    """Return the name of a collective's result that the program `text` reads before it waits for it, or None.

    Such a program has a race: its values differ from run to run.
    """
    for function in ast.parse(text).body:
        if isinstance(function, ast.FunctionDef):
            pending: set[str] = set()
            for statement in function.body:
                reads = {name.id for name in ast.walk(statement) if isinstance(name, ast.Name)} & pending
                if reads and not _passes_on(statement):
                    return min(reads)
                if isinstance(statement, ast.Assign) and (reads or _is_collective(statement.value)):
                    pending |= set() if _is_wait(statement.value) else _targets(statement)
    return None


def _passes_on(statement: ast.stmt) -> bool:
    """Whether the statement waits for a pending result, or only takes one out of a list."""
    if not isinstance(statement, (ast.Assign, ast.Expr)):
        return False
    return _is_wait(statement.value) or (
        isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Subscript)
    )


def _is_wait(value: ast.expr) -> bool:
    return ast.unparse(value).startswith(_WAIT)


def _is_collective(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and bool(_COLLECTIVE.match(ast.unparse(value.func)))


def _targets(statement: ast.Assign) -> set[str]:
    return {target.id for target in statement.targets if isinstance(target, ast.Name)}


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
