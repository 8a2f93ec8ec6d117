"""Whether the ranks of a distributed run wait for each other for ever: noticed while it runs, and read afterwards."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import psutil

from repro_kit.probe.repro_probe.protocol.queries import ScriptOrder
from repro_kit.runner.read_findings import Findings, read_ranks
from repro_kit.runner.supervised import EndedEarly
from repro_kit.trace.rank_history import Collective, RankState

STUCK = 20.0  # seconds in one collective, in a run that may go on
STUCK_AT_END = 3.0  # the same, in a run that has used up its time, or that is repeated many times
CERTAIN = 4  # so many times sooner it is sure, where two ranks are in calls that can never meet


def latest(findings: Findings) -> tuple[RankState, ...]:
    """The last state of each rank; none for a run of one rank."""
    states = {state.rank: state for state in findings.ranks}
    return tuple(states.values()) if len(states) > 1 else ()


def deadlock(states: Sequence[RankState], alive: Collection[int], stuck: float = STUCK) -> str:
    """Where the ranks wait for ever, in words; empty where they may go on.

    They wait for ever when every rank that lives has waited in a collective for `stuck` seconds, and the ranks are not
    all in the same one. Two kinds of collective with the same number in a group can never meet, which is sure sooner.
    `states`: one for each rank. `alive`: the processes that live.
    """
    living = [(state, state.waits) for state in states if state.pid in alive]
    waits = [wait for _, wait in living if wait is not None]
    if len(states) < 2 or not waits or len(waits) < len(living):
        return ""
    if len(living) == states[0].size and len({_call(wait) for wait in waits}) == 1:
        return ""
    began = max(wait.began for wait in waits)  # from then on all of them waited: an older state shows nothing
    if any(state.time - began < stuck / (CERTAIN if _never_meet(waits) else 1) for state, _ in living):
        return ""
    counted = len({wait.named() for wait in waits}) < len(waits)  # one line of a loop, or of different calls
    return "; ".join(
        f"rank {state.rank} waits in {wait.named()}{_number(wait) if counted else ''}"
        for state, wait in living
        if wait is not None
    )


def _number(wait: Collective) -> str:
    return f" (number {wait.number} of group {wait.group})"


def _call(collective: Collective) -> tuple[object, ...]:
    return (collective.group, collective.number, collective.kind)


def _never_meet(waits: Sequence[Collective]) -> bool:
    return len(set(map(_call, waits))) > len({(wait.group, wait.number) for wait in waits})


LOOK = 3.0  # seconds between looks


class DeadlockWatch:
    """Watches one run whose findings go to `probe`."""

    def __init__(self, probe: Path, stuck: float = STUCK) -> None:
        """`stuck`: seconds in one collective after which a rank may wait for ever."""
        self._probe, self._stuck = probe, stuck
        self._looked = 0.0
        self.reason = ""  # why the run was ended, in a sentence

    def look(self, seconds: float) -> None:
        """Look; `seconds` since the run began. Raises EndedEarly where no rank can go on."""
        if seconds - self._looked < LOOK:
            return
        self._looked = seconds
        waits = _running(self._probe, self._stuck)
        if waits:
            taken = f"The ranks were taken to wait for each other for ever: {waits}."
            self.reason = f"{taken} --timeout S waits for S seconds instead."
            raise EndedEarly(seconds)


def is_stuck(order: ScriptOrder) -> bool:
    """Whether the ranks of a script that runs for an oracle wait for each other for ever."""
    return bool(_running(Path(order["directory"]) / "probe", STUCK_AT_END))


def _running(probe: Path, stuck: float) -> str:
    states = read_ranks(probe, [])
    return deadlock(states, frozenset(state.pid for state in states if _lives(state.pid)), stuck)


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
