"""Let Inductor choose a vector instruction set (torch/_inductor/cpu_vec_isa.py), without repeating earlier tests."""

from __future__ import annotations

import contextlib
import os
from typing import Any


def pick() -> None:
    """Let torch choose now, and remember what loads."""
    from torch._inductor import cpu_vec_isa

    remember_loads(cpu_vec_isa)
    cpu_vec_isa.pick_vec_isa()


def remember_loads(cpu_vec_isa: Any) -> None:
    """Let module `cpu_vec_isa` of torch note which test libraries load; nothing where this torch has no such test.

    Torch starts a process to see whether a test library loads. A file next to the library notes that it does.
    """
    owner: Any = getattr(cpu_vec_isa, "VecISA", None)
    load = getattr(owner, "_probe_load", None)
    if load is None:
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
