"""Short files in the places of those that torch would have written: a script may ask for their size, or copy them."""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import sys
from typing import Any

_START = b"A stand-in of repro-kit for what torch would write to "
_LONGEST = 4096  # bytes of a path, on Linux
_COPIES = ("shutil.copyfile", "os.rename", "os.link")  # audit events of a source and a target

_written: list[str] = []


def hold_place(path: Any) -> None:
    """Write a placeholder to `path` where no file is; it goes when the process ends. Nothing for an open file."""
    if not isinstance(path, (str, os.PathLike)):
        return
    whole = os.path.abspath(os.fsdecode(path))
    with contextlib.suppress(OSError), open(whole, "xb") as file:
        file.write(_START + os.fsencode(whole))
        if not _written:
            atexit.register(_remove_all)
            sys.addaudithook(_see)
        _written.append(whole)


def place_of(path: Any) -> str:
    """Return the path that the placeholder at `path` was written to, before it was moved or copied; "" for others."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        return ""
    try:
        with open(path, "rb") as file:
            content = file.read(len(_START) + _LONGEST)
    except (OSError, ValueError):
        return ""
    return os.fsdecode(content[len(_START) :]) if content.startswith(_START) else ""


def _see(event: str, arguments: tuple[Any, ...]) -> None:
    """Let a copy go with the placeholder, and refuse one that would overwrite a file of the user's."""
    if event not in _COPIES or not place_of(arguments[0]):
        return
    target = os.path.abspath(os.fsdecode(arguments[1]))
    if os.path.isfile(target) and not place_of(target):
        raise FileNotFoundError(errno.ENOENT, "repro-kit compiled nothing, so there is no such file", arguments[0])
    _written.append(target)


def _remove_all() -> None:
    for path in _written:
        if place_of(path):
            with contextlib.suppress(OSError):
                os.remove(path)
