"""Pack a bundle so that the same content gives the same bytes; unpack one that nobody vouches for."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import stat
import struct
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from repro_kit.case import write_atomic
from repro_kit.errors import Exit, ReproKitError

CHECKSUMS = "MANIFEST.sha256"

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can hold
_MODE = stat.S_IFREG | 0o644

_MOST_FILES = 10_000
_MOST_BYTES = 1 << 30  # of all files, unpacked
_LARGEST = 1 << 30  # bytes of the archive itself
_LONGEST_NAME = 200  # characters of one part
_ENTRY = 400  # bytes of an entry in a zip's directory, at most
_WINDOWS_DRIVE = re.compile(r"^[A-Za-z]:")
_SUM_LINE = re.compile(r"^(?P<sum>[0-9a-f]{64}) [ *](?P<name>.+)$")
_GZIP = b"\x1f\x8b"

#: The forms of an archive by the end of its name.
FORMS = (".zip", ".tar.gz", ".tgz")


class _BadArchiveError(Exception):
    """It cannot be read to its end."""


def checksums(files: Mapping[str, bytes]) -> bytes:
    """The text that ``sha256sum -c`` reads."""
    return "".join(f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files)).encode()


def pack(path: Path, files: Mapping[str, bytes]) -> None:
    """Write `files` to `path`, as its name says (`FORMS`), whole or not at all. Raises ReproKitError."""
    data = _tar(files) if path.name.endswith((".tar.gz", ".tgz")) else _zip(files)
    try:
        write_atomic(path, data)
    except OSError as error:
        raise ReproKitError(
            f"Cannot write the bundle {path}: {error.strerror}; choose another place with --output.", Exit.FAILED
        ) from error


def _zip(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system = 3  # Unix, wherever it is packed
            entry.external_attr = _MODE << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name])
    return buffer.getvalue()


def _tar(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with (
        gzip.GzipFile("", "wb", compresslevel=9, fileobj=buffer, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(files[name]), 0o644
            archive.addfile(entry, io.BytesIO(files[name]))
    return buffer.getvalue()


def unpack(path: Path, into: Path) -> None:
    """Write the files of bundle `path` to the directory `into`, each checked against its checksum before.

    Raises ReproKitError, before anything is written, for whatever is not a plain, complete, undamaged bundle.
    """
    files = read(path)
    for name, data in files.items():
        target = into / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def read(path: Path) -> dict[str, bytes]:
    """The files of bundle `path`, safe to write below a directory; raises as `unpack`."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for
            raise ReproKitError(f"{path} is not a bundle: it is no file.")
        if path.stat().st_size > _LARGEST:
            raise _refused(path, f"it is larger than {_LARGEST >> 30} GiB")
        with path.open("rb") as file:
            start = file.read(2)
        with (_open_tar if start == _GZIP else _open_zip)(path) as members:
            files = _checked(path, members)
    except (_BadArchiveError, zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError) as error:
        raise ReproKitError(f"{path} is not a bundle, or is damaged: {_shown(str(error))}.") from error
    except (NotImplementedError, RuntimeError, ValueError, struct.error) as error:
        raise ReproKitError(f"{path} is damaged: {_shown(str(error))}.") from error
    except OSError as error:  # gzip's BadGzipFile is one, without a number
        why = error.strerror or _shown(str(error))
        raise ReproKitError(f"Cannot read {path}: {why}.") from error
    _check_sums(path, files)
    return files


@dataclass(frozen=True)
class _Member:
    """What an archive says of one of its files, before anything of it is read."""

    name: str
    size: int
    is_file: bool
    is_directory: bool
    read: Callable[[], bytes]
    fault: str = ""  # what else is wrong with it


def _checked(path: Path, members: Iterator[_Member]) -> dict[str, bytes]:
    """The files, each looked at before it is read."""
    files: dict[str, bytes] = {}
    seen: set[str] = set()
    total = 0
    for member in members:
        total += member.size
        name = member.name.rstrip("/") if member.is_directory else member.name
        fault = _fault(member, name, seen)
        if len(seen) >= _MOST_FILES:
            fault = f"it holds more than {_MOST_FILES} files"
        if total > _MOST_BYTES:
            fault = f"it unpacks to more than {_MOST_BYTES >> 30} GiB"
        if fault:
            raise _refused(path, fault)
        seen.add(name.casefold())
        if member.is_file:
            data = member.read()
            if len(data) != member.size:
                raise _BadArchiveError(f"{name} has another size than it claims")
            files[name] = data
    return files


def _fault(member: _Member, name: str, seen: set[str]) -> str:
    shown = repr(_shown(name))
    if not (member.is_file or member.is_directory):
        return f"{shown} is a link or a device"
    if not _is_safe(name):
        return f"{shown} leads out of its directory, or is no name of a file"
    if name.casefold() in seen:
        return f"{shown} is in it twice"
    return f"{shown} {member.fault}" if member.fault else ""


@contextmanager
def _open_zip(path: Path) -> Iterator[Iterator[_Member]]:
    _check_directory(path)
    with zipfile.ZipFile(path) as archive:
        yield (_zip_member(archive, entry) for entry in archive.infolist())


def _check_directory(path: Path) -> None:
    """Refuse a zip whose directory of entries alone would be absurd, before Python reads it."""
    with path.open("rb") as file:
        size = path.stat().st_size
        file.seek(max(0, size - (1 << 16) - 22))
        end = file.read()
    at = end.rfind(b"PK\x05\x06")
    if at < 0 or len(end) < at + 22:
        return  # no zip, which zipfile says
    directory = struct.unpack("<L", end[at + 12 : at + 16])[0]
    if directory > _MOST_FILES * _ENTRY or end[max(0, at - 20) : at].startswith(b"PK\x06\x07"):
        raise _refused(path, f"it holds more than {_MOST_FILES} files")


def _zip_member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> _Member:
    def data() -> bytes:
        with archive.open(entry) as stream:  # no more than it claims, whatever its stream would unpack to
            return stream.read(entry.file_size + 1)

    kind = stat.S_IFMT(entry.external_attr >> 16)
    usual = entry.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    fault = "is encrypted" if entry.flag_bits & 1 else "" if usual else "is packed in an unusual way"
    is_file = kind in (0, stat.S_IFREG) and not entry.is_dir()
    return _Member(entry.filename, entry.file_size, is_file, kind in (0, stat.S_IFDIR) and entry.is_dir(), data, fault)


class _Limited(io.RawIOBase):
    """A stream that ends in an error where more is read than a bundle may hold; a header may claim any size."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream
        self._left = _MOST_BYTES + _MOST_FILES * 1024  # headers and padding

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > self._left:
            raise _BadArchiveError(f"it unpacks to more than {_MOST_BYTES >> 30} GiB")
        data = self._stream.read(size)
        self._left -= len(data)
        return data


@contextmanager
def _open_tar(path: Path) -> Iterator[Iterator[_Member]]:
    # As a stream, so that nothing is unpacked before it is looked at.
    with (
        gzip.open(path) as packed,
        tarfile.open(fileobj=_Limited(packed), mode="r|") as archive,
    ):
        yield (_tar_member(archive, entry) for entry in archive)


def _tar_member(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> _Member:
    def data() -> bytes:
        stream = archive.extractfile(entry)
        return stream.read() if stream is not None else b""

    fault = "has holes" if entry.issparse() else ""
    return _Member(entry.name, entry.size, entry.isreg(), entry.isdir(), data, fault)


def _refused(path: Path, reason: str) -> ReproKitError:
    return ReproKitError(f"{path} is refused: {reason}; a bundle has no such thing.")


def _shown(text: str) -> str:
    """`text` of a stranger's on one line, without what a terminal obeys."""
    return "".join(it if it.isprintable() else "?" for it in text)[:300]


def _is_safe(name: str) -> bool:
    path = PurePosixPath(name)
    return not (
        path.is_absolute()
        or ".." in path.parts
        or "\\" in name
        or not path.parts
        or _WINDOWS_DRIVE.match(name)
        or any(unicodedata.category(it)[0] == "C" for it in name)  # control characters, marks of direction
        or any(len(part) > _LONGEST_NAME for part in path.parts)
        or path.as_posix() != name
    )


def _check_sums(path: Path, files: Mapping[str, bytes]) -> None:
    if CHECKSUMS not in files:
        raise ReproKitError(f"{path} is not a bundle: it has no {CHECKSUMS}.")
    listed = _listed(files[CHECKSUMS])
    if listed is None:
        raise ReproKitError(f"{path} is damaged: its {CHECKSUMS} is not a list of checksums.")
    stray = sorted(set(files) - {CHECKSUMS} - set(listed)) + sorted(set(listed) - set(files))
    if stray:
        raise ReproKitError(f"{path} is damaged: {_shown(stray[0])} is missing, or not in its {CHECKSUMS}.")
    for name, expected in listed.items():
        if hashlib.sha256(files[name]).hexdigest() != expected:
            raise ReproKitError(f"{path} is damaged: {_shown(name)} does not have its checksum.")


def _listed(text: bytes) -> dict[str, str] | None:
    """The checksums by name; None where `text` is no list of them."""
    found = [_SUM_LINE.match(line) for line in text.decode("utf-8", "replace").splitlines() if line]
    return {line["name"]: line["sum"] for line in found if line} if all(found) else None


def wrong_sums(directory: Path) -> list[str]:
    """Names of the files of an unpacked bundle that are not as it was packed, or are gone."""
    listed = _listed((directory / CHECKSUMS).read_bytes())
    if listed is None:
        return [CHECKSUMS]
    return [name for name, expected in sorted(listed.items()) if _sum(directory / name) != expected]


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
