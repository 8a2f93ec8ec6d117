"""The input of sections and advice: the insights, and how to name and read files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from repro_kit.failure.failure import Frame
from repro_kit.trace.insights import Insights
from repro_kit.trace.places import CompileRef, is_torch

_RESUMED = re.compile(r"^torch_dynamo_resume_in_(?P<function>.+)_at_(?P<line>\d+)$")
_UNKNOWN = "?"  # a file that a damaged log does not name


def _unread(_: str) -> str | None:
    return None


@dataclass(frozen=True)
class Context:
    """The insights, with the current directory and a reader of files.

    `cwd` shortens the names of files below it. `read` returns the text of a user's file, or None if it is gone.
    """

    insights: Insights
    cwd: str = ""
    read: Callable[[str], str | None] = _unread

    def file(self, name: str) -> str:
        """`name` relative to the current directory; a file of torch, relative to its installation."""
        if is_torch(name) and "-packages/" in name:
            return name.rpartition("-packages/")[2]
        path = PurePath(name)
        return str(path.relative_to(self.cwd)) if self.cwd and path.is_relative_to(self.cwd) else name

    def place(self, frame: Frame | None) -> str:
        """``file:line``; torch 2.0 tells no line of a function that is compiled again."""
        if frame is None or frame.file in ("", _UNKNOWN):
            return ""
        return f"{self.file(frame.file)}:{frame.line}" if frame.line else self.file(frame.file)

    def place_in(self, frame: Frame | None) -> str:
        """``file:line in function``, with the code of the line if known."""
        if frame is None or not self.place(frame):
            return ""
        code = frame.code or self.line(frame)
        function = f" in {plain_name(frame.function)}" if frame.function else ""
        return f"{self.place(frame)}{function}" + (f": {code.strip()}" if code else "")

    def line(self, frame: Frame) -> str:
        """The source line of `frame`, from the user's file."""
        lines = self.lines(frame.file)
        return lines[frame.line - 1].strip() if 0 < frame.line <= len(lines) else ""

    def lines(self, file: str) -> Sequence[str]:
        """The lines of a user's file; empty for a file of torch or one that is gone."""
        text = None if is_torch(file) else self.read(file)
        return re.split(r"\r\n?|\n", text.rstrip("\r\n")) if text is not None else ()  # a form feed does not end a line


def plain_name(function: str) -> str:
    """The name that the user wrote, without Dynamo's prefix for the code after a graph break."""
    resumed = _RESUMED.match(function)
    return plain_name(resumed["function"]) if resumed else function


def compiled_name(function: str) -> str:
    """The compiled code: ``f``, or ``f from line 7`` for the code after a graph break."""
    resumed = _RESUMED.match(function)
    return f"{plain_name(function)} from line {resumed['line']}" if resumed else function


def is_resumed(function: str) -> bool:
    """Whether the compiled code is what follows a graph break, rather than a function of the user's."""
    return bool(_RESUMED.match(function))


def headline(reason: str) -> str:
    """The first line of a failure's message, and the second if the first ends with a colon."""
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].endswith(":"):
        return f"{lines[0]} {lines[1]}"
    return lines[0] if lines else ""


def counted(number: int, noun: str, nouns: str = "") -> str:
    """``1 graph``, ``2 graphs``."""
    return f"{number} {noun if number == 1 else nouns or noun + 's'}"


def listed(items: Iterable[object], most: int = 6) -> str:
    """``a, b, c and 4 more``."""
    texts = [str(item) for item in items]
    if len(texts) <= most + 1:
        return ", ".join(texts)
    return f"{', '.join(texts[:most])} and {len(texts) - most} more"


def ids(refs: Sequence[CompileRef], count: int = 0) -> str:
    """The compile ids; `count` is their number, if some are not listed."""
    more = max(0, count - len(refs))
    return listed(refs) + (f" and {more} more" if more and len(refs) <= 7 else "")


def seconds(value: float) -> str:
    """``0.12 s``, ``12 s``."""
    return f"{value:.0f} s" if value >= 10 else f"{value:.2g} s" if value >= 0.095 else f"{value * 1000:.0f} ms"
