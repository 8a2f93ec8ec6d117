"""The files that a case's command names, each with a digest: an edited script is another failure."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

from repro_kit.case.case import Case

_HASHED = 64 << 20  # bytes of a file of the command that are looked at for changes


def command_files(case: Case) -> list[str]:
    """The files named on the command line, each with a digest: an edited script is another failure."""
    found = []
    for word in case.file.subject.argv:
        path = Path(case.file.subject.cwd) / word
        with suppress(OSError, ValueError):
            if path.is_file() and path.stat().st_size <= _HASHED:
                found.append(f"{path.name}:{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}")
    return found
