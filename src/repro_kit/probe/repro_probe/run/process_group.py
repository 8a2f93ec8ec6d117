"""Join the process group that a program's collectives name: a fake one, or one of several real processes.

Every rank of a real group runs the same program, with random values of its own. The ranks meet through a file, and talk
over the loopback interface.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import cast

from repro_probe.protocol.recipe_data import FAKE, GROUP_DEFAULTS, GroupData, RecipeData

#: The network interface of the machine itself, by platform.
_LOOPBACK = {"linux": "lo", "darwin": "lo0"}
_MEETING = "ranks"  # the file through which the ranks meet


def whole(group: GroupData) -> GroupData:
    """Return `group` with all its fields."""
    return cast(GroupData, {**GROUP_DEFAULTS, **group})


def is_real(group: GroupData | None) -> bool:
    """Whether each rank of `group` is a process of its own."""
    return group is not None and whole(group)["backend"] != FAKE


def start_peers(group: GroupData, run: Callable[[int], object]) -> None:
    """Fork a process for each rank of `group` but the judged one, which calls `run` with its rank, and ends.

    This process becomes the judged rank. It must have started no thread.
    """
    for rank in range(group["size"]):
        if rank != whole(group)["rank"] and os.fork() == 0:
            try:
                run(rank)
            finally:
                os._exit(0)


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
