"""What was asked and answered, in memory and (if wanted) in a file that survives being killed at any point."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from repro_kit.errors import ReproKitError
from repro_kit.model.serialize import from_data, to_data
from repro_kit.reduce.oracle import Answer


class Journal:
    """Answers by key, as JSON lines: ``{"key", "outcome", "seconds", "note"}``.

    A line is complete once it ends in a newline; what a kill left behind it is cut off. Opened again, the journal
    answers all that it was told before, so that a resumed search repeats no query and goes the same way.
    """

    def __init__(self, path: Path | None = None) -> None:
        """A journal kept at `path`, or in memory only. Raises ReproKitError when the file cannot be used."""
        self._answers: dict[str, Answer] = {}
        self._append: Callable[[bytes], Any] | None = None
        if path is not None:
            try:
                self._open(path)
            except OSError as error:
                raise ReproKitError(f"Cannot use the journal {path}: {error.strerror}.") from error

    def _open(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        for line in whole.splitlines():
            try:
                entry = orjson.loads(line)
                self._answers[entry.pop("key")] = from_data(entry, Answer)
            except Exception as error:
                raise ReproKitError(f"The journal {path} is damaged; delete it to search anew.") from error
        file = path.open("r+b" if data else "wb", buffering=0)
        file.truncate(len(whole))
        file.seek(len(whole))
        self._append = file.write

    def get(self, key: str) -> Answer | None:
        """The answer to `key`, if known."""
        return self._answers.get(key)

    def put(self, key: str, answer: Answer) -> None:
        """Remember an answer; it is in the file (of the system, if not on the disk) on return."""
        self._answers[key] = answer
        if self._append is not None:
            self._append(orjson.dumps({"key": key, **to_data(answer)}, option=orjson.OPT_APPEND_NEWLINE))

    def __len__(self) -> int:
        return len(self._answers)
