"""Whether the ranks of a distributed run wait for each other for ever, from the last state of each."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from repro_kit.runner.read_findings import Collective, Findings, RankState

STUCK = 20.0  # seconds in one collective, in a run that may go on
STUCK_AT_END = 3.0  # the same, in a run that has used up its time, or that is repeated many times
#: Collectives in which every rank gives a tensor of one size. In the others the sizes may differ.
_ONE_SIZE = ("all_reduce", "allreduce", "broadcast", "reduce", "_allgather_base", "all_gather_into_tensor")


def latest(findings: Findings) -> tuple[RankState, ...]:
    """The last state of each rank; none for a run of one rank."""
    states = {state.rank: state for state in findings.ranks}
    return tuple(states.values()) if len(states) > 1 else ()


def deadlock(states: Sequence[RankState], alive: Collection[int], stuck: float = STUCK) -> str:
    """Where the ranks wait for ever, in words; empty where they may go on.

    They wait for ever when every rank that lives has waited in a collective for `stuck` seconds, and the ranks are not
    all in the same one. `states`: one for each rank. `alive`: the processes that live.
    """
    living = [state for state in states if state.pid in alive]
    waits = [state.waits for state in living]
    if len(states) < 2 or not living or not all(_is_stuck(state, stuck) for state in living):
        return ""
    places = {(wait.group, wait.number, kind_of(wait)) for wait in waits if wait is not None}
    if len(living) == states[0].size and len(places) == 1:
        return ""
    return "; ".join(f"rank {state.rank} waits in {named(state.waits)}" for state in living if state.waits is not None)


def _is_stuck(state: RankState, stuck: float) -> bool:
    return state.waits is not None and state.time - state.waits.began >= stuck


def named(collective: Collective, sizes: str = "") -> str:
    """The collective with the user's line."""
    place = f" at {short(collective.line)}" if collective.line else ""
    return f"{collective.name}{sizes}{place}"


def short(line: str) -> str:
    """A place, ``FILE:LINE``, without the directory."""
    return line.replace("\\", "/").rpartition("/")[2]


def kind_of(collective: Collective) -> tuple[object, ...]:
    """What must be alike in the calls of all ranks."""
    same = collective.name in _ONE_SIZE
    return (collective.name, collective.sizes, collective.dtypes) if same else (collective.name,)
