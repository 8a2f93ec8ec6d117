"""A journal of answers as JSON lines: an answered question is not asked again, even after a kill."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from io import FileIO
from pathlib import Path
from typing import Any, Generic, TypeVar

import orjson

from repro_kit.errors import UsageError

T = TypeVar("T")


class JsonLinesJournal(Generic[T]):
    """Answers in memory and, with a path, in a file of lines ``{"key", …}``. The last answer of a key counts.

    A line is complete when it ends in a newline; an incomplete last line, left by a kill, is cut off. A damaged line
    loses its own answer only. `about` names what the answers depend on besides the key: a line ``{"about"}`` precedes
    the answers that depend on it, and only answers with the same `about` count. After a damaged line the current
    `about` is unknown, so no answer counts until the next ``{"about"}`` line.
    """

    def __init__(
        self,
        path: Path | None,
        decode: Callable[[dict[str, Any]], T],
        encode: Callable[[T], Mapping[str, Any]],
        about: str = "",
    ) -> None:
        """`decode` and `encode` turn the rest of a line into an answer and back.

        Raises UsageError when the file cannot be used.
        """
        self._answers: dict[str, T] = {}
        self._encode = encode
        self._file: FileIO | None = None
        if path is not None:
            try:
                self._open(path, decode, about)
            except OSError as error:
                raise UsageError(f"Cannot use the journal {path}: {error.strerror}.") from error

    def _open(self, path: Path, decode: Callable[[dict[str, Any]], T], about: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        current: str | None = ""
        for line in whole.splitlines():
            try:
                entry = orjson.loads(line)
                current = entry.get("about", current)
                if current == about and "key" in entry:
                    self._answers[entry.pop("key")] = decode(entry)
            except (AttributeError, KeyError, TypeError, ValueError):
                current = None if about else current
        self._file = path.open("ab", buffering=0)  # append, as other processes may have the file open
        self._file.truncate(len(whole))
        if current != about:
            self._append({"about": about})

    def get(self, key: str) -> T | None:
        """The answer to `key`; None when there is none."""
        return self._answers.get(key)

    def put(self, key: str, answer: T) -> None:
        """Remember an answer. On return, the operating system has it, though the disk may not."""
        self._answers[key] = answer
        self._append({"key": key, **self._encode(answer)})

    def _append(self, entry: Mapping[str, Any]) -> None:
        left = orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE)
        while left and self._file is not None:  # a disk that fills up takes a part, and then raises
            left = left[self._file.write(left) :]

    def __len__(self) -> int:
        return len(self._answers)
