"""Make torch's C++ builder write its files atomically.

The builder writes a target in place, and takes an existing target as complete. A partial file that a killed query
left, such as a precompiled header, would break every later compilation that uses it, even in the user's own runs.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from repro_probe.server import kept_libraries


def build_whole(shared: str | None = None) -> None:
    """Let the builder (torch/_inductor/cpp_builder.py) write each target to another name and rename it.

    With `shared`, a directory, the queries of a server build a library once for all of them.
    """
    from torch._inductor.cpp_builder import CppBuilder

    build = CppBuilder.build

    def build_aside(self: Any) -> Any:
        target, output = getattr(self, "_target_file", ""), getattr(self, "_output", "")
        if not target or not output.endswith(f" {target}"):
            return build(self)
        name = kept_libraries.key(self.get_command_line(), target) if shared else None
        if shared and name and kept_libraries.take(shared, name, target):
            return None
        aside = f"{target}.{os.getpid()}"
        self._output = output[: -len(target)] + aside
        try:
            build(self)
            os.replace(aside, target)
            if shared and name:
                kept_libraries.keep(shared, name, target)
        finally:
            self._output = output
            with contextlib.suppress(OSError):
                os.unlink(aside)
        return None

    CppBuilder.build = build_aside
