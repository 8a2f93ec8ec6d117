"""Marks on cases (the probe's `owner.py` makes them): whether this user made or accepted a case on this machine."""

from __future__ import annotations

import hmac
from contextlib import suppress
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from repro_kit.plain_file import read_plain
from repro_kit.probe.repro_probe.protocol.watched_data import OWNER_FILE

_MARK = 64  # characters
_PROBES = Path(__file__).parent / "probe" / "repro_probe" / "common" / "owner.py"


def mark_of(directory: Path, text: str) -> str:
    """The mark for the directory that `text` describes; "" where this user has no directory for a key."""
    spec = spec_from_file_location("repro_kit_probes_owner", _PROBES)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    mark: str = module.mark_of(str(directory), text)
    return mark


def is_marked(directory: Path, text: str) -> bool:
    """Whether this user made or accepted the directory on this machine, with the same `text`."""
    with suppress(OSError):
        mark = read_plain(directory / OWNER_FILE, _MARK).decode("ascii", "replace")
        expected = mark_of(directory, text)
        return bool(expected) and hmac.compare_digest(mark, expected)
    return False
