"""Inductor's choice among vector instruction sets (torch/_inductor/cpu_vec_isa.py), asking only for what is new."""

from __future__ import annotations

import contextlib
import os
from typing import Any


def pick() -> None:
    """Let torch choose, which it remembers. That a probe loads is noted beside it: to see it takes a process."""
    from torch._inductor import cpu_vec_isa

    owner: Any = getattr(cpu_vec_isa, "VecISA", None)
    load = getattr(owner, "_probe_load", None)
    if load is None:
        cpu_vec_isa.pick_vec_isa()
        return

    def load_once(self: Any, path: str) -> Any:
        note = f"{path}.loads"
        if os.path.exists(note):
            return True
        loads = load(self, path)
        if loads:
            with contextlib.suppress(OSError):
                open(note, "w").close()
        return loads

    owner._probe_load = load_once
    try:
        cpu_vec_isa.pick_vec_isa()
    finally:
        owner._probe_load = load
