"""The reducer's journal of answers: a killed search, started again, takes the same steps."""

from __future__ import annotations

from pathlib import Path

from repro_kit.journal import JsonLinesJournal
from repro_kit.model.serialize import from_data, to_data
from repro_kit.reduce.oracle import Answer


class Journal(JsonLinesJournal[Answer]):
    """Answers by the hash of a program's text, as JSON lines: ``{"key", "outcome", "seconds", "note", "failure"}``."""

    def __init__(self, path: Path | None = None, about: str = "") -> None:
        """A journal in the file `path`, or in memory only (None). Raises UsageError when the file cannot be used."""
        super().__init__(path, lambda entry: from_data(entry, Answer), to_data, about)
