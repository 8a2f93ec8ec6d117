"""The line of the user's files at which a failure shows, with the lines around it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from repro_kit.bundle.archive.contents import Contents
from repro_kit.bundle.repro.source_files import PLACE, source_text
from repro_kit.bundle.story.story import Excerpt
from repro_kit.model.failure.failure import Failure

_AROUND = 5  # lines before and after
_PLACE = re.compile(r'File "(?P<file>(?:(?!\n *File ").)+?)", line (?P<line>\d+)', re.DOTALL)


def excerpt_of(failure: Failure | None, sources: Mapping[str, Path], contents: Contents) -> Excerpt | None:
    """The excerpt, redacted as in `contents`; None if no source of the user's is seen in `failure` or packed.

    `sources`: the user's files by their names below `PLACE`.
    """
    names = {str(path): name for name, path in sources.items()}
    for file, line in _places(failure) if failure else ():
        name = names.get(file)
        packed = contents.redactor.file_name(f"{PLACE}/{name}")
        entry = contents.entries.get(packed)
        if name is None or entry is None:
            continue
        lines = entry.data.decode().splitlines()
        # What was replaced may have had several lines, so that the numbers no longer hold.
        if len(lines) == len(source_text(sources[name]).splitlines()) and 0 < line <= len(lines):
            first = max(line - 1 - _AROUND, 0)
            return Excerpt(packed, line, "\n".join(lines[first : line + _AROUND]))
    return None


def _places(failure: Failure) -> Iterator[tuple[str, int]]:
    """The (file, line) pairs in a failure, the likeliest first: Dynamo quotes the user's code in its message."""
    for exception in reversed(failure.exceptions):
        yield from reversed([(match["file"], int(match["line"])) for match in _PLACE.finditer(exception.message)])
        yield from ((frame.file, frame.line) for frame in reversed(exception.frames))
    yield from ((frame.file, frame.line) for frame in reversed(failure.stack))
    yield from reversed([(match["file"], int(match["line"])) for match in _PLACE.finditer(failure.text)])
