"""Let Inductor choose a vector instruction set (torch/_inductor/cpu_vec_isa.py), without repeating earlier tests."""

from __future__ import annotations

import contextlib
import os
from typing import Any


def pick() -> None:
    """Let torch choose, and remember its choice.

    Torch starts a process to see whether a test library loads. A file beside the library notes that it does.
    """
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
