"""What a file or directory is that was given as a trace, and holds none that can be read."""

from __future__ import annotations

import shlex
from pathlib import Path

from repro_kit.errors import ReproKitError
from repro_kit.plain_file import open_plain
from repro_kit.trace.reader import is_log

_UNPACKERS = {b"\x1f\x8b": "gunzip", b"BZh": "bunzip2", b"\xfd7zXZ\0": "unxz", b"\x28\xb5\x2f\xfd": "unzstd"}
_LONGEST_HEAD = max(map(len, _UNPACKERS))
_WANTED = "give a TORCH_TRACE log or directory, or the text of TORCH_LOGS"


def no_log(path: Path) -> str:
    """One sentence that names what is wrong with `path`, and what to do."""
    if path.is_dir():
        return _of_directory(path)
    if path.suffix == ".pt2":
        return (
            f"{path} is an exported program, and no trace; compile it with: repro-kit collect {shlex.quote(str(path))}"
        )
    if path.stat().st_size == 0:
        return f"{path} is empty: nothing was compiled in its process, or the disk was full; {_WANTED}."
    return packed(path) or f"{path} holds no records of torch; {_WANTED}."


def packed(path: Path) -> str:
    """The sentence about a compressed file; empty for any other file."""
    try:
        with open_plain(path) as file:
            start = file.read(_LONGEST_HEAD)
    except (OSError, ReproKitError):
        return ""
    unpacker = next((program for magic, program in _UNPACKERS.items() if start.startswith(magic)), "")
    return f"{path} is compressed; unpack it first: {unpacker} {path.name}" if unpacker else ""


def _of_directory(path: Path) -> str:
    files = sorted(path.iterdir())
    if not files:
        return f"{path} is an empty directory; torch writes its logs where TORCH_TRACE says, once it compiles."
    below = [folder.name for folder in files if folder.is_dir() and any(map(is_log, folder.glob("*.log")))]
    if below:
        return f"{path} holds no log itself, but its directories do ({', '.join(below[:3])}); give one of them."
    sentences = (packed(file) for file in files if file.is_file())
    return next(filter(None, sentences), f"{path} holds no records of torch; {_WANTED}.")
