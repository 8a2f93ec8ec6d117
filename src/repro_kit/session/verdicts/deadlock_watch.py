"""Notice that the ranks of a distributed run wait for each other for ever, and end the run then."""

from __future__ import annotations

from pathlib import Path

import psutil

from repro_kit.probe.repro_probe.protocol.queries import ScriptOrder
from repro_kit.runner.launch import EndedEarly
from repro_kit.runner.read_findings import read_ranks
from repro_kit.session.verdicts.deadlock_rule import STUCK, STUCK_AT_END, deadlock

_LOOK = 3.0  # seconds between looks


class DeadlockWatch:
    """Watches one run whose findings go to `probe`."""

    def __init__(self, probe: Path, stuck: float = STUCK) -> None:
        """`stuck`: seconds in one collective after which a rank may wait for ever."""
        self._probe, self._stuck = probe, stuck
        self._looked = 0.0
        self.reason = ""  # why the run was ended, in a sentence

    def look(self, seconds: float) -> None:
        """Look; `seconds` since the run began. Raises EndedEarly where no rank can go on."""
        if seconds - self._looked < _LOOK:
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
