"""What the reducer asked and was answered, so that a search that was killed goes the same way."""

from __future__ import annotations

from pathlib import Path

from repro_kit import journal
from repro_kit.model.serialize import from_data, to_data
from repro_kit.reduce.oracle import Answer


class Journal(journal.Journal[Answer]):
    """Answers by the hash of a program's text, as JSON lines: ``{"key", "outcome", "seconds", "note"}``."""

    def __init__(self, path: Path | None = None, about: str = "") -> None:
        """A journal kept at `path`, or in memory only. Raises ReproKitError when the file cannot be used."""
        super().__init__(path, lambda entry: from_data(entry, Answer), to_data, about)
