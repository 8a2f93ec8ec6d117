"""Let the queries of one server share what each would find out anew: which precompiled header a kernel uses."""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import Any

from repro_probe.common.findings_directory import write_whole


def share_headers(directory: str) -> None:
    """Let all children of this process note their precompiled headers in `directory`; nothing where torch has none.

    Torch runs the preprocessor over its headers once in each process (`_precompile_header`,
    torch/_inductor/codecache.py), to notice headers that changed. The headers do not change while a server runs.
    """
    from torch._inductor import codecache

    precompile: Any = getattr(codecache, "_precompile_header", None)
    if precompile is None:
        return

    def precompile_once(*arguments: Any, **command: Any) -> Any:
        wanted = repr((arguments, sorted(command.items())))
        note = os.path.join(directory, f"header-{hashlib.sha256(wanted.encode()).hexdigest()}")
        with contextlib.suppress(OSError), open(note, encoding="utf-8") as file:
            noted = file.read()
            if os.path.exists(noted):
                return noted
        header = precompile(*arguments, **command)
        with contextlib.suppress(OSError):
            write_whole(note, header)
        return header

    setattr(codecache, "_precompile_header", precompile_once)  # noqa: B010
