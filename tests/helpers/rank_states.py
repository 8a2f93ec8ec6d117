"""The last states of two ranks, and collectives in which they may wait."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from repro_kit.probe.repro_probe.protocol.findings import RANK, finding
from repro_kit.trace.rank_history import Collective, RankState

REDUCE = Collective("all_reduce", "0", 1, ((4,),), ("Float",), "/user/train.py:9", began=100.0, done=False)
GATHER = replace(REDUCE, name="all_gather", line="/user/train.py:12")


def state(rank: int, *collectives: Collective, **fields: Any) -> RankState:
    named: dict[str, Any] = {"time": 130.0, "doing": "collective", "pid": 10 + rank, **fields}
    return RankState(rank=rank, size=2, collectives=collectives, **named)


def write_state(directory: Path, pid: int, rank: int, name: str, waited: float) -> None:
    """Let the process `pid` have written that it has waited in collective `name` for so many seconds."""
    call = {"name": name, "group": "0", "number": 1, "sizes": [], "dtypes": [], "line": "", "began": 100.0}
    state = {"rank": rank, "size": 2, "time": 100.0 + waited, "doing": "collective", "line": "", "compiles": []}
    state["collectives"] = [{**call, "done": False}]
    (directory / finding(RANK, pid)).write_text(json.dumps(state))
