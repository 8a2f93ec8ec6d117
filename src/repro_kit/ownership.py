"""Marks on cases: whether this user made or accepted a case on this machine."""

from __future__ import annotations

import hmac
from contextlib import suppress
from pathlib import Path

from repro_kit.files import read_plain
from repro_kit.probe.repro_probe.protocol.findings import OWNER_FILE
from repro_kit.probe.repro_probe.protocol.findings import mark_of as mark_of_path

_MARK = 64  # characters


def mark_of(directory: Path, text: str) -> str:
    """The mark for the directory that `text` describes; "" where this user has no directory for a key."""
    return mark_of_path(str(directory), text)


def is_marked(directory: Path, text: str) -> bool:
    """Whether this user made or accepted the directory on this machine, with the same `text`."""
    with suppress(OSError):
        mark = read_plain(directory / OWNER_FILE, _MARK).decode("ascii", "replace")
        expected = mark_of(directory, text)
        return bool(expected) and hmac.compare_digest(mark, expected)
    return False
