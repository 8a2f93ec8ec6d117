"""Leftovers of an earlier debugging session that silently change every later run of the user's programs."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from repro_kit.runner.compiler import users_cache
from repro_kit.runner.places import breaks_commands


def size_of(cache: Path) -> int:
    """The size of a cache in bytes; 0 where there is none. Another process may remove files of it meanwhile."""
    size = 0
    for file in cache.rglob("*"):
        with suppress(OSError):
            status = file.stat()
            size += status.st_size if stat.S_ISREG(status.st_mode) else 0
    return size


def warnings(env: Mapping[str, str] = os.environ) -> list[str]:
    """A sentence for each leftover of torch's CompilerBisector (torch/_inductor/compiler_bisector.py), and one for a
    cache directory whose path makes C++ compilations fail.
    """
    sentences = []
    cache = users_cache(env)
    if breaks_commands(cache):
        sentences.append(
            f"Inductor's cache is in {str(cache)!r}, and Inductor does not quote that path for the C++ compiler: "
            "compilations fail without repro-kit too. Set TORCHINDUCTOR_CACHE_DIR and TMPDIR to paths without blanks "
            "and quotes."
        )
    status = cache / "bisect" / "bisect_status.txt"
    try:
        lines = status.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    backend = next((line.removeprefix("backend=").strip() for line in lines if line.startswith("backend=")), "")
    if backend:
        sentences.append(
            f"{status} is left from a run of torch's CompilerBisector: outside repro-kit, every torch.compile "
            f"uses backend {backend!r} until you remove the directory {status.parent}."
        )
    for name in ("TORCH_BISECT_BACKEND", "TORCH_BISECT_SUBSYSTEM"):
        if env.get(name):
            sentences.append(f"{name}={env[name]} is set and changes what is compiled in every run; unset it.")
    return sentences
