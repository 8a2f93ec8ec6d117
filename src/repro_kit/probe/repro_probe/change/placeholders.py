"""Short files in the places of those that torch would have written, since a script may ask whether they are there."""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import sys
import tempfile
from typing import Any, NamedTuple

_TEXT = b"repro-kit compiled nothing, so this file only stands in for what torch would have written.\n"
_MOVES = ("os.rename", "os.link")


class _Placeholder(NamedTuple):
    """The path that it was written to, and the process that removes it; a fork of this process does not."""

    path: str
    writer: int


_places: dict[str, _Placeholder] = {}  # by the path where each one is now
_roots: list[str] = []


def allow_placeholders(*directories: str) -> None:
    """Let placeholders stand below `directories`, too."""
    _roots.extend(os.path.realpath(path) for path in directories)


def hold_place(path: Any) -> None:
    """Write a placeholder to `path`, if it is below a temporary directory and no file is there. It goes at exit.

    A placeholder exists only below directories for temporary files, and can be neither read nor moved out of there:
    none replaces a file of the user's.
    """
    if not isinstance(path, (str, os.PathLike)) or not _is_temporary(path):
        return
    whole = os.path.abspath(os.fsdecode(path))
    with contextlib.suppress(OSError), open(whole, "xb") as file:
        file.write(_TEXT)
        if not _places:
            atexit.register(_remove_all)
            sys.addaudithook(_see)
        _places[whole] = _Placeholder(whole, os.getpid())


def place_of(path: Any) -> str:
    """Return the path that the placeholder at `path` was written to, before it was moved; "" for any other file."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        return ""
    here = _places.get(os.path.abspath(os.fsdecode(path)))
    return here.path if here is not None else ""


def _is_temporary(path: Any) -> bool:
    roots = (os.path.realpath(tempfile.gettempdir()), *_roots)
    return os.path.realpath(os.fsdecode(path)).startswith(tuple(os.path.join(root, "") for root in roots))


def _see(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse what would read a placeholder, or take it out of the temporary directories; follow it within them."""
    if event == "open":
        path, mode, flags = arguments
        reads = "r" in mode if isinstance(mode, str) else (flags or 0) & os.O_ACCMODE == os.O_RDONLY
        if reads and place_of(path):
            raise _nothing_there(path)
    elif event in _MOVES:
        source, target = (os.path.abspath(os.fsdecode(path)) for path in arguments[:2])
        for place in [each for each in _places if each == source or each.startswith(os.path.join(source, ""))]:
            if not _is_temporary(target):
                raise _nothing_there(source)
            _places[target + place[len(source) :]] = _places[place]


def _nothing_there(path: Any) -> OSError:
    return FileNotFoundError(errno.ENOENT, "repro-kit compiled nothing, so there is no such file", path)


def _remove_all() -> None:
    own = [place for place, placeholder in _places.items() if placeholder.writer == os.getpid()]
    _places.clear()  # so that this function may read them
    for place in own:
        with contextlib.suppress(OSError):
            with open(place, "rb") as file:
                is_placeholder = file.read() == _TEXT
            if is_placeholder:
                os.remove(place)
