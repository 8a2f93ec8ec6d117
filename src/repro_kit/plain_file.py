"""Open and read files that a user names or a stranger sends: plain files only, up to a size."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path
from typing import Any

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
