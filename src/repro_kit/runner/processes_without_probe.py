"""Find the processes of a run that loaded torch without the probe. Whether these compiled anything is unknown."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil

from repro_kit.probe.repro_probe.protocol.findings import HELLO, finding

_LIBRARY = "libtorch"  # part of the name of a file that every process with torch has mapped
#: Words of commands that compile nothing of the user's. boot.py leaves the first two alone too. The last one is torch's
#: test of the CPU's vector instructions (torch/_inductor/cpu_vec_isa.py).
_TOOLS = (
    "torch/_inductor/compile_worker",
    "multiprocessing.resource_tracker",
    "from ctypes import cdll\ncdll.LoadLibrary(",
)


class ProcessesWithoutProbe:
    """Watches the descendants of this process during a run (`look` is for the launcher's `on_tick`).

    Only Linux shows which libraries another process has loaded. On other systems the result is empty.
    """

    def __init__(self) -> None:
        self._before = {process.pid for process in _below()}
        self._with_torch: dict[int, str] = {}

    def look(self, seconds: float = 0.0) -> None:
        """Note the processes that have loaded torch by now."""
        for process in _below():
            if process.pid in self._before or process.pid in self._with_torch:
                continue
            with suppress(psutil.Error, OSError):
                words = " ".join(process.cmdline())
                loaded = _LIBRARY in Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8", errors="replace")
                if loaded and not any(tool in words for tool in _TOOLS):
                    self._with_torch[process.pid] = words

    def without_probe(self, findings: Path) -> tuple[str, ...]:
        """Return the command lines of the processes that the probe wrote nothing about to `findings`."""
        unseen = [pid for pid in self._with_torch if not (findings / finding(HELLO, pid)).exists()]
        return tuple(self._with_torch[pid] for pid in unseen)


def _below() -> list[psutil.Process]:
    with suppress(psutil.Error):
        return psutil.Process().children(recursive=True)
    return []
