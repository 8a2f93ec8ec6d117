"""Let torch's C++ builder leave whole files only.

It writes a target in place, and takes one that is there for finished: what a killed query has begun, a precompiled
header say, would break every later compilation that shares it, in the user's own runs too.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any


def build_whole() -> None:
    """Have each target written aside and renamed (torch/_inductor/cpp_builder.py), where this torch has the means."""
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
