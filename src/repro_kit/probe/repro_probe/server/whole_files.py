"""Make torch's C++ builder write its files atomically."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from repro_probe.server import kept_libraries


def build_whole(shared: str | None = None) -> None:
    """Let the builder (torch/_inductor/cpp_builder.py) write each target to another name and rename it.

    The builder writes a target in place, and takes an existing target as complete. A partial file that a killed
    query left, such as a precompiled header, would break every later compilation that uses it, even in the user's
    own runs.

    With `shared`, a directory, the queries of a server build a library once for all of them.
    """
    from torch._inductor.cpp_builder import CppBuilder

    build = CppBuilder.build

    def build_aside(self: Any) -> Any:
        target = getattr(self, "_target_file", "")
        aside = f"{target}.{os.getpid()}"
        redirected = _redirected(self, target, aside)
        if redirected is None:
            return build(self)
        name = kept_libraries.library_key(self.get_command_line(), target) if shared else None
        if shared and name and kept_libraries.take_library(shared, name, target):
            return b"", target  # an older torch asks for the compiler's words and for the path
        before = {attribute: getattr(self, attribute) for attribute in redirected}
        vars(self).update(redirected)
        try:
            build(self)
            os.replace(aside, target)
            if shared and name:
                kept_libraries.keep_library(shared, name, target)
        finally:
            vars(self).update(before)
            with contextlib.suppress(OSError):
                os.unlink(aside)
        return b"", target

    CppBuilder.build = build_aside


def _redirected(builder: Any, target: str, aside: str) -> dict[str, str] | None:
    """Return the attributes with which `builder` writes `aside` in place of `target`; None where it would not."""
    output = getattr(builder, "_output", None)
    if output is None:  # an older torch makes the command from the target
        return {"_target_file": aside} if f" -o {target}" in builder.get_command_line() else None
    return {"_output": output[: -len(target)] + aside} if target and output.endswith(f" {target}") else None
