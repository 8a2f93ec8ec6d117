"""The members of an untrusted archive: each is checked before it is read, and read in pieces."""

from __future__ import annotations

import gzip
import re
import stat
import struct
import tarfile
import unicodedata
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from repro_kit.errors import ReproKitError, UsageError
from repro_kit.files import no_file, open_plain

MOST_FILES = 10_000
MOST_BYTES = 1 << 30  # of all files, unpacked
VALUES = "inputs/"  # tensor values: any size, any compression ratio
MOST_TEXT = 256 << 20  # of all other files, unpacked
RATIO, FREE = 300, 16 << 20  # text may be RATIO times the archive, and FREE bytes in any case

_LARGEST = 1 << 30  # bytes of the archive itself
_LONGEST_PART, _LONGEST_NAME, _DEEPEST = 200, 1000, 20
_ENTRY = 400  # bytes of an entry in a zip's directory, at most
_HEADER = 1 << 14  # bytes of a tar header that belongs to one file
_PIECE = 1 << 18
_WINDOWS_DRIVE = re.compile(r"^[A-Za-z]:")
_GZIP = b"\x1f\x8b"


class BadArchiveError(Exception):
    """The archive is damaged."""


@dataclass(frozen=True)
class Member:
    """What an archive's directory says about one of its files."""

    name: str
    size: int
    is_file: bool
    is_directory: bool
    pieces: Callable[[], Iterator[bytes]]
    fault: str = ""  # another reason to refuse it

    def checked(self) -> Iterator[bytes]:
        """The file's bytes in pieces. Raises BadArchiveError if their number differs from the claimed size."""
        size = 0
        for piece in self.pieces():
            size += len(piece)
            if size > self.size:
                break
            yield piece
        if size != self.size:
            raise BadArchiveError(f"{self.name} does not have the size that it claims")


@contextmanager
def opened(path: Path) -> Iterator[Iterator[Member]]:
    """The files and directories in the archive at `path`.

    Raises ReproKitError for a member that lies outside the directory, is a link, a duplicate, too large, and so on.
    """
    kind = no_file(path)
    if kind:
        raise UsageError(f"{path} is not a bundle: it is not a file, but {kind}.")
    size = path.stat().st_size
    if size > _LARGEST:
        raise refused(path, f"it is larger than {_LARGEST >> 30} GiB")
    with open_plain(path) as file:
        start = file.read(2)
        file.seek(0)
        with (_open_tar if start == _GZIP else _open_zip)(path, file, size) as members:
            yield _looked_at(path, members, size)


def refused(path: Path, reason: str) -> ReproKitError:
    """The error for an archive that repro-kit cannot have made."""
    return UsageError(f"{path} is refused: {reason}. repro-kit writes no such bundle.")


def _looked_at(path: Path, members: Iterator[Member], size: int) -> Iterator[Member]:
    seen: set[str] = set()
    total = text = 0
    for member in members:
        name = member.name.rstrip("/") if member.is_directory else member.name
        total += member.size
        text += 0 if name.startswith(VALUES) else member.size
        fault = _fault(member, name, seen)
        if len(seen) >= MOST_FILES:
            fault = f"it holds more than {MOST_FILES} files"
        if text > min(MOST_TEXT, max(FREE, RATIO * size)):
            fault = f"its texts unpack to more than {min(MOST_TEXT, max(FREE, RATIO * size)) >> 20} MiB"
        if total > MOST_BYTES:
            fault = f"it unpacks to more than {MOST_BYTES >> 30} GiB"
        if fault:
            raise refused(path, fault)
        seen.add(name.casefold())
        yield member


def _fault(member: Member, name: str, seen: set[str]) -> str:
    shown = repr(name[:300])
    if not (member.is_file or member.is_directory):
        return f"{shown} is a link or a device"
    if not _is_safe(name):
        return f"{shown} lies outside of its directory, or is not a file name"
    if name.casefold() in seen:
        return f"{shown} occurs twice"
    return f"{shown} {member.fault}" if member.fault else ""


def _is_safe(name: str) -> bool:
    if len(name) > _LONGEST_NAME:
        return False
    path = PurePosixPath(name)
    return not (
        path.is_absolute()
        or ".." in path.parts
        or "\\" in name
        or not 0 < len(path.parts) <= _DEEPEST
        or _WINDOWS_DRIVE.match(name)
        or any(
            unicodedata.category(character)[0] == "C" for character in name
        )  # control characters, marks of direction
        or any(len(part) > _LONGEST_PART for part in path.parts)
        or path.as_posix() != name
    )


# -- zip ---------------------------------------------------------------------------------------------------------------


@contextmanager
def _open_zip(path: Path, file: BinaryIO, size: int) -> Iterator[Iterator[Member]]:
    _check_directory(path, file, size)
    with zipfile.ZipFile(file) as archive:
        if len(archive.infolist()) > MOST_FILES:
            raise refused(path, f"it holds more than {MOST_FILES} files")
        yield (_zip_member(archive, entry) for entry in archive.infolist())


def _check_directory(path: Path, file: BinaryIO, size: int) -> None:
    """Refuse a zip whose directory of entries is far too large, before Python reads it."""
    file.seek(max(0, size - (1 << 16) - 42))
    end = file.read()
    file.seek(0)
    at = len(end) - 22  # like zipfile: at the very end, else before a comment
    if end[at : at + 4] != b"PK\x05\x06" or end[-2:] != b"\0\0":
        at = end.rfind(b"PK\x05\x06")
    if at < 0 or len(end) < at + 22:
        return  # not a zip; zipfile reports that
    directory = struct.unpack("<L", end[at + 12 : at + 16])[0]
    if directory > MOST_FILES * _ENTRY or end[max(0, at - 20) : at].startswith(b"PK\x06\x07"):
        raise refused(path, f"it holds more than {MOST_FILES} files")


def _zip_member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Member:
    def pieces() -> Iterator[bytes]:
        with archive.open(entry) as stream:
            while data := stream.read(_PIECE):
                yield data

    kind = stat.S_IFMT(entry.external_attr >> 16)
    usual = entry.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    fault = "is encrypted" if entry.flag_bits & 1 else "" if usual else "is packed in an unusual way"
    in_name = entry.filename.endswith("/")
    is_file = kind in (0, stat.S_IFREG) and not in_name
    is_directory = kind in (0, stat.S_IFDIR) and in_name
    return Member(entry.filename, entry.file_size, is_file, is_directory, pieces, fault)


# -- tar ---------------------------------------------------------------------------------------------------------------
# tarfile's own reader is not used: it reads headers of any claimed length, and lists of holes of any length.


@contextmanager
def _open_tar(path: Path, file: BinaryIO, size: int) -> Iterator[Iterator[Member]]:
    with gzip.GzipFile(fileobj=file) as stream:
        yield _tar_members(stream)


def _tar_members(stream: gzip.GzipFile) -> Iterator[Member]:
    header: dict[str, str] = {}  # extended header of the next entry
    while (block := stream.read(tarfile.BLOCKSIZE)).strip(b"\0"):
        entry = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        if entry.type in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XGLTYPE):
            header |= _header(_Body(stream, entry.size), entry.type)
            continue
        size = _number(header["size"]) if "size" in header else entry.size
        body = _Body(stream, size)
        holes = entry.type == tarfile.GNUTYPE_SPARSE or any(key.startswith("GNU.sparse") for key in header)
        is_file = entry.isreg() or holes
        yield Member(
            header.get("path", entry.name), size, is_file, entry.isdir(), body.pieces, "has holes" if holes else ""
        )
        header = {}
        body.skip()


def _header(body: _Body, kind: bytes) -> dict[str, str]:
    """The fields that an extended header sets for the next entry."""
    if body.size > _HEADER:
        raise BadArchiveError("one of its headers is far too long")
    text = b"".join(body.pieces())
    body.skip()
    if kind == tarfile.GNUTYPE_LONGNAME:
        return {"path": text.rstrip(b"\0").decode("utf-8", "surrogateescape")}
    return dict(_pax(text)) if kind == tarfile.XHDTYPE else {}


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise BadArchiveError("a header in it cannot be read")
    return int(text)


def _pax(header: bytes) -> Iterator[tuple[str, str]]:
    """The records ``LENGTH KEY=VALUE`` of a header."""
    while header.strip(b"\0"):
        digits, _, _ = header.partition(b" ")
        length = _number(digits.decode("ascii", "replace"))
        key, mark, value = header[len(digits) + 1 : max(length - 1, 0)].partition(b"=")
        if not mark or length > len(header):
            raise BadArchiveError("a header in it cannot be read")
        yield key.decode("utf-8", "replace"), value.decode("utf-8", "surrogateescape")
        header = header[length:]


class _Body:
    """The bytes after a tar header, padded to a whole block."""

    def __init__(self, stream: gzip.GzipFile, size: int) -> None:
        if size < 0:
            raise BadArchiveError("a file claims a size below 0")
        self.size = size
        self._stream = stream
        self._left = size
        self._padding = -size % tarfile.BLOCKSIZE

    def pieces(self) -> Iterator[bytes]:
        while self._left:
            data = self._stream.read(min(self._left, _PIECE))
            if not data:
                raise BadArchiveError("it ends too early")
            self._left -= len(data)
            yield data

    def skip(self) -> None:
        for _ in self.pieces():
            pass
        self._left, self._padding = self._padding, 0
        for _ in self.pieces():
            pass
