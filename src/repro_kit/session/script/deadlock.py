"""Notice that the ranks of a distributed run wait for each other for ever, and end the run then."""

from __future__ import annotations

from pathlib import Path

import psutil

from repro_kit.runner.launch import EndedEarly
from repro_kit.runner.read_findings import read_ranks
from repro_kit.session.verdicts.rank_states import deadlock

_LOOK = 3.0  # seconds between looks


class DeadlockWatch:
    """Watches one run whose findings go to `probe`."""

    def __init__(self, probe: Path) -> None:
        self._probe = probe
        self._looked = 0.0
        self.reason = ""  # why the run was ended, in a sentence

    def look(self, seconds: float) -> None:
        """Look; `seconds` since the run began. Raises EndedEarly where no rank can go on."""
        if seconds - self._looked < _LOOK:
            return
        self._looked = seconds
        states = read_ranks(self._probe, [])
        alive = frozenset(state.pid for state in states if psutil.pid_exists(state.pid))
        self.reason = deadlock(states, alive)
        if self.reason:
            raise EndedEarly(seconds)
