"""What was asked and answered, in memory and (if wanted) in a file that survives being killed at any point."""

from __future__ import annotations

from io import FileIO
from pathlib import Path
from typing import Any

import orjson

from repro_kit.errors import ReproKitError
from repro_kit.model.serialize import from_data, to_data
from repro_kit.reduce.oracle import Answer


class Journal:
    """Answers by key, as JSON lines: ``{"key", "outcome", "seconds", "note"}``.

    A line is complete once it ends in a newline; what a kill left behind it is cut off. Opened again, the journal
    answers all that it was told before, so that a resumed search repeats no query and goes the same way. `about` names
    what the answers depend on beside the program; a line ``{"about"}`` stands before those for each, and only
    those for the same count.
    """

    def __init__(self, path: Path | None = None, about: str = "") -> None:
        """A journal kept at `path`, or in memory only. Raises ReproKitError when the file cannot be used."""
        self._answers: dict[str, Answer] = {}
        self._file: FileIO | None = None
        if path is not None:
            try:
                self._open(path, about)
            except OSError as error:
                raise ReproKitError(f"Cannot use the journal {path}: {error.strerror}.") from error

    def _open(self, path: Path, about: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        current = ""
        for line in whole.splitlines():
            try:
                entry = orjson.loads(line)
                current = entry.get("about", current)
                if current == about and "key" in entry:
                    self._answers[entry.pop("key")] = from_data(entry, Answer)
            except Exception as error:
                raise ReproKitError(f"The journal {path} is damaged; delete it to search anew.") from error
        self._file = path.open("r+b" if data else "wb", buffering=0)
        self._file.truncate(len(whole))
        self._file.seek(len(whole))
        if current != about:
            self._append({"about": about})

    def get(self, key: str) -> Answer | None:
        """The answer to `key`, if known."""
        return self._answers.get(key)

    def put(self, key: str, answer: Answer) -> None:
        """Remember an answer; it is in the file (of the system, if not on the disk) on return."""
        self._answers[key] = answer
        self._append({"key": key, **to_data(answer)})

    def _append(self, entry: dict[str, Any]) -> None:
        left = orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE)
        while left and self._file is not None:  # a disk that gets full takes a part, and then raises
            left = left[self._file.write(left) :]

    def __len__(self) -> int:
        return len(self._answers)
