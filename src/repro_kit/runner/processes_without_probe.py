"""Processes of a run that have torch, but not the probe: whether they compiled nothing, nobody can tell."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil

from repro_kit.probe.repro_probe.protocol.findings import HELLO, finding

_LIBRARY = "libtorch"  # among what a process with torch has mapped
_TOOLS = ("torch/_inductor/compile_worker", "multiprocessing.resource_tracker")  # that boot.py leaves alone too


class ProcessesWithoutProbe:
    """Looks at the processes below this one while a run is under way (`look` is for the launcher's `on_tick`).

    Only Linux shows what another process has loaded; elsewhere none is seen.
    """

    def __init__(self) -> None:
        self._before = {process.pid for process in _below()}
        self._with_torch: dict[int, str] = {}

    def look(self, seconds: float = 0.0) -> None:
        """Take down which processes have torch by now."""
        for process in _below():
            if process.pid in self._before or process.pid in self._with_torch:
                continue
            with suppress(psutil.Error, OSError):
                words = " ".join(process.cmdline())
                loaded = _LIBRARY in Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8", errors="replace")
                if loaded and not any(tool in words for tool in _TOOLS):
                    self._with_torch[process.pid] = words

    def without_probe(self, findings: Path) -> tuple[str, ...]:
        """The command lines of those that left no word of theirs in `findings`, the probe's directory."""
        unseen = [pid for pid in self._with_torch if not (findings / finding(HELLO, pid)).exists()]
        return tuple(self._with_torch[pid] for pid in unseen)


def _below() -> list[psutil.Process]:
    with suppress(psutil.Error):
        return psutil.Process().children(recursive=True)
    return []
