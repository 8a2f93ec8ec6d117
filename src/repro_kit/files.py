"""Files: written whole or not at all, and read only when they are plain files."""

from __future__ import annotations

import io
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from repro_kit.errors import UsageError

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def no_file(path: Path) -> str:
    """The kind of file at `path` that is not a plain file ("a pipe"); "" for a plain file, or where nothing is."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return ""
    return _kind(mode)


def _kind(mode: int) -> str:
    return "" if stat.S_ISREG(mode) else next((name for test, name in _KINDS if test(mode)), "no plain file")


class _NamedFile(io.FileIO):
    """A file whose errors name it: some files of the system's can be opened, and not read (/proc/self/mem)."""

    def __init__(self, handle: int, path: Path) -> None:
        super().__init__(handle, "rb")
        self._path = path

    def readinto(self, buffer: Any, /) -> int | None:
        try:
            return super().readinto(buffer)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from error

    def readall(self) -> bytes:
        try:
            return super().readall()
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from error


def open_plain(path: Path) -> io.BufferedReader:
    """Open the plain file at `path` for reading, without waiting for a pipe.

    Raises UsageError for another kind of file, OSError when the file cannot be opened.
    """
    kind = _kind(path.stat().st_mode)  # check first: opening a device may have an effect
    if not kind:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        kind = _kind(os.fstat(handle).st_mode)  # check again: the file may have been replaced
        if not kind:
            return io.BufferedReader(_NamedFile(handle, path))
        os.close(handle)
    raise UsageError(f"{path} is {kind}; give a plain file.")


def read_plain(path: Path, most: int) -> bytes:
    """The bytes of the plain file at `path`. Raises as `open_plain`, and UsageError for more than `most` bytes."""
    with open_plain(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise UsageError(f"{path} is larger than {most / 2**20:g} MiB, the limit for such a file.")
    return data


def check_tree(directory: Path) -> None:
    """Raise UsageError where a pipe or a device lies below `directory`: reading it might not end."""
    for folder, _, files in os.walk(directory):
        for name in files:
            kind = no_file(Path(folder, name))
            if kind in ("a pipe", "a device"):
                raise UsageError(f"{Path(folder, name)} is {kind}; remove it from {directory}.")


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
