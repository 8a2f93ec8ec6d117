"""Make torch's C++ builder write its files atomically.

The builder writes a target in place, and takes an existing target as complete. A partial file that a killed query
left, such as a precompiled header, would break every later compilation that uses it, even in the user's own runs.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any


def build_whole() -> None:
    """Let the builder (torch/_inductor/cpp_builder.py) write each target to another name and rename it."""
    from torch._inductor.cpp_builder import CppBuilder

    build = CppBuilder.build

    def build_aside(self: Any) -> Any:
        target, output = getattr(self, "_target_file", ""), getattr(self, "_output", "")
        if not target or not output.endswith(f" {target}"):
            return build(self)
        aside = f"{target}.{os.getpid()}"
        self._output = output[: -len(target)] + aside
        try:
            build(self)
            os.replace(aside, target)
        finally:
            self._output = output
            with contextlib.suppress(OSError):
                os.unlink(aside)
        return None

    CppBuilder.build = build_aside
