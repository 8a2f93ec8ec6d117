"""Answers by key as JSON lines: what was asked before is not asked again, wherever the work was killed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from io import FileIO
from pathlib import Path
from typing import Any, Generic, TypeVar

import orjson

from repro_kit.errors import UsageError

T = TypeVar("T")


class Journal(Generic[T]):
    """Answers in memory and, with a path, in a file of lines ``{"key", …}``; the last answer of a key counts.

    A line is complete once it ends in a newline. Half a line at the end, as a kill leaves it, is cut off. A damaged
    line costs its own answer, which is asked for again. `about` names what the answers depend on beside the key: a line
    ``{"about"}`` stands before the answers for each, and only those for the same count. After a damaged line nobody
    knows which `about` holds, so that no answer counts until the next such line.
    """

    def __init__(
        self,
        path: Path | None,
        decode: Callable[[dict[str, Any]], T],
        encode: Callable[[T], Mapping[str, Any]],
        about: str = "",
    ) -> None:
        """`decode` and `encode` turn the rest of a line into an answer and back.

        Raises ReproKitError when the file cannot be used.
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
        self._file = path.open("ab", buffering=0)  # appends, whoever else has the file open
        self._file.truncate(len(whole))
        if current != about:
            self._append({"about": about})

    def get(self, key: str) -> T | None:
        """The answer to `key`, if known."""
        return self._answers.get(key)

    def put(self, key: str, answer: T) -> None:
        """Remember an answer; it is in the file (of the system, if not on the disk) on return."""
        self._answers[key] = answer
        self._append({"key": key, **self._encode(answer)})

    def _append(self, entry: Mapping[str, Any]) -> None:
        left = orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE)
        while left and self._file is not None:  # a disk that gets full takes a part, and then raises
            left = left[self._file.write(left) :]

    def __len__(self) -> int:
        return len(self._answers)
