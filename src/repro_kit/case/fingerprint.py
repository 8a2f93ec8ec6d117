"""Fingerprints of the files that a case's command names: an edited script is another failure."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

from repro_kit.case.case import Case

_HASHED = 64 << 20  # bytes: larger files of the command are not checked for changes


def command_files(case: Case) -> list[str]:
    """``NAME:DIGEST`` for each file of at most 64 MiB that is named on the command line."""
    fingerprints = []
    for word in case.file.subject.argv:
        path = Path(case.file.subject.cwd) / word
        with suppress(OSError, ValueError):
            if path.is_file() and path.stat().st_size <= _HASHED:
                fingerprints.append(f"{path.name}:{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}")
    return fingerprints
