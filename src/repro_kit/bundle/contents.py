"""What goes into a bundle: every file with its role, each text redacted on its way in."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from repro_kit import __version__
from repro_kit.bundle.archive import CHECKSUMS, checksums
from repro_kit.bundle.redact import Redactor
from repro_kit.bundle.trace_text import blank_payload_sums, recompute_payload_sums

SCHEMA = 1
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Entry:
    """One file: its bytes as packed, what it is for, and how many places were redacted."""

    data: bytes
    role: str
    redactions: int = 0


@dataclass
class Contents:
    """The files by name, in the making."""

    redactor: Redactor
    entries: dict[str, Entry] = field(default_factory=dict)

    def add_text(self, name: str, text: str, role: str, verbatim: Mapping[str, str] | None = None) -> None:
        """Add a text, redacted; then put the `verbatim` texts, redacted before, in the places of their marks."""
        text = blank_payload_sums(text) if role == "trace" else text
        self.redactor.learn(text, name)
        redacted = self.redactor.redact(text, name)
        shown = recompute_payload_sums(redacted.text) if role == "trace" else redacted.text
        for mark, finished in (verbatim or {}).items():
            shown = shown.replace(mark, finished)
        self.entries[name] = Entry(shown.encode("utf-8", "replace"), role, redacted.count)

    def add_values(self, name: str, path: Path) -> None:
        """Add a file of tensor values as it is."""
        self.entries[name] = Entry(path.read_bytes(), "values")

    def seal(self, about: Mapping[str, Any]) -> dict[str, bytes]:
        """All files with the manifest (which says `about` the bundle) and the checksums."""
        listed = [
            {
                "path": name,
                "sha256": hashlib.sha256(entry.data).hexdigest(),
                "size": len(entry.data),
                "role": entry.role,
                "redactions": entry.redactions,
            }
            for name, entry in sorted(self.entries.items())
        ]
        manifest = {"schema": SCHEMA, "tool": {"name": "repro-kit", "version": __version__}, **about, "files": listed}
        options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        files = {name: entry.data for name, entry in self.entries.items()}
        files[MANIFEST] = orjson.dumps(manifest, option=options)
        return {**files, CHECKSUMS: checksums(files)}

    def write(self, directory: Path) -> None:
        """Write the files so far below `directory`."""
        write_files({name: entry.data for name, entry in self.entries.items()}, directory)


def write_files(files: Mapping[str, bytes], directory: Path) -> None:
    """Write `files` below `directory`."""
    for name, data in files.items():
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
