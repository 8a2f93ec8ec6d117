"""Write files atomically, and read text files."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from repro_kit.errors import UsageError
from repro_kit.plain_file import read_plain

LARGEST = 64 << 20  # bytes of the largest file that is read whole

_ASIDE = ".part"

_UNFINISHED = re.compile(rf"\..+\.[a-z0-9_]{{8}}{re.escape(_ASIDE)}")


def write_atomic(path: Path, data: bytes) -> None:
    """Write to a temporary file, fsync and rename it: a reader sees the old file or the new one, never a part."""
    with replacing(path) as file:
        file.write(data)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write, which takes the place of `path` when all is written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_ASIDE)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(aside).replace(path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise


def copy_atomic(source: Path, target: Path) -> None:
    """Copy a file, so that `target` is complete or absent."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=_ASIDE)
    os.close(handle)
    try:
        shutil.copyfile(source, aside)
        Path(aside).replace(target)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise


def link_or_copy(source: Path, target: Path) -> None:
    """`target` with the content of `source`: a second name of the same file where the file system has that."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except FileExistsError:
        return
    except OSError:  # another file system, or one without links
        copy_atomic(source, target)


def remove_unfinished(paths: Iterable[Path]) -> None:
    """Remove the temporary files among `paths`, left by a process that was killed. No other process may write there."""
    for path in paths:
        if _UNFINISHED.fullmatch(path.name):
            path.unlink(missing_ok=True)


def read_text(path: Path) -> str:
    """The text of a file in a case. Raises UsageError when it is missing, or is not UTF-8 text."""
    try:
        return read_plain(path, LARGEST).decode("utf-8")
    except FileNotFoundError:
        raise UsageError(f"{path} is missing; run the stage that writes it again.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"{path} cannot be read: {reason}.") from error
