"""The last states of two ranks, and collectives in which they may wait."""

from dataclasses import replace
from typing import Any

from repro_kit.trace.rank_history import Collective, RankState

REDUCE = Collective("all_reduce", "0", 1, ((4,),), ("Float",), "/user/train.py:9", began=100.0, done=False)
GATHER = replace(REDUCE, name="all_gather", line="/user/train.py:12")


def state(rank: int, *collectives: Collective, **fields: Any) -> RankState:
    named: dict[str, Any] = {"time": 130.0, "doing": "collective", "pid": 10 + rank, **fields}
    return RankState(rank=rank, size=2, collectives=collectives, **named)
