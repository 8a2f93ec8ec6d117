"""Pack a bundle so that the same content gives the same bytes; unpack one that nobody vouches for."""

from __future__ import annotations

import hashlib
import io
import re
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from repro_kit.case import write_atomic
from repro_kit.errors import Exit, ReproKitError

CHECKSUMS = "MANIFEST.sha256"

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can hold
_MODE = stat.S_IFREG | 0o644

_MOST_FILES = 10_000
_MOST_BYTES = 2 * 1024**3  # of all files, unpacked
_WINDOWS_DRIVE = re.compile(r"^[A-Za-z]:")
_SUM_LINE = re.compile(r"^(?P<sum>[0-9a-f]{64}) [ *](?P<name>.+)$")


def checksums(files: Mapping[str, bytes]) -> bytes:
    """The text that ``sha256sum -c`` reads."""
    return "".join(f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files)).encode()


def pack(path: Path, files: Mapping[str, bytes]) -> None:
    """Write `files` as a zip to `path`, whole or not at all. Raises ReproKitError when it cannot be written."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system = 3  # Unix, wherever it is packed
            entry.external_attr = _MODE << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name])
    try:
        write_atomic(path, buffer.getvalue())
    except OSError as error:
        raise ReproKitError(
            f"Cannot write the bundle {path}: {error.strerror}; choose another place with --output.", Exit.FAILED
        ) from error


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
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            _check_entries(path, entries)
            files = {entry.filename: _read_entry(archive, entry) for entry in entries if not entry.is_dir()}
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise ReproKitError(f"{path} is not a bundle, or is damaged: {error}.") from error
    except OSError as error:
        raise ReproKitError(f"Cannot read {path}: {error.strerror}.") from error
    _check_sums(path, files)
    return files


def _check_entries(path: Path, entries: list[zipfile.ZipInfo]) -> None:
    def refuse(reason: str) -> None:
        raise ReproKitError(f"{path} is refused: {reason}; a bundle has no such thing.")

    if len(entries) > _MOST_FILES:
        refuse(f"it holds {len(entries)} files")
    if sum(entry.file_size for entry in entries) > _MOST_BYTES:
        refuse(f"it unpacks to more than {_MOST_BYTES // 1024**3} GiB")
    seen = set()
    for entry in entries:
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            refuse(f"{entry.filename!r} is a link or a device")
        if not _is_safe(entry.filename):
            refuse(f"{entry.filename!r} leads out of its directory")
        if entry.filename.casefold() in seen:
            refuse(f"{entry.filename!r} is in it twice")
        if entry.flag_bits & 1:
            refuse(f"{entry.filename!r} is encrypted")
        seen.add(entry.filename.casefold())


def _is_safe(name: str) -> bool:
    path = PurePosixPath(name)
    return not (
        path.is_absolute()
        or ".." in path.parts
        or "\\" in name
        or "\0" in name
        or not path.parts
        or _WINDOWS_DRIVE.match(name)
    )


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """The entry's bytes; no more than it claims, whatever its stream would unpack to."""
    with archive.open(entry) as stream:
        data = stream.read(entry.file_size + 1)
    if len(data) != entry.file_size:
        raise zipfile.BadZipFile(f"{entry.filename} has another size than it claims")
    return data


def _check_sums(path: Path, files: Mapping[str, bytes]) -> None:
    if CHECKSUMS not in files:
        raise ReproKitError(f"{path} is not a bundle: it has no {CHECKSUMS}.")
    lines = files[CHECKSUMS].decode("utf-8", "replace").splitlines()
    found = [_SUM_LINE.match(line) for line in lines if line]
    if not all(found):
        raise ReproKitError(f"{path} is damaged: its {CHECKSUMS} is not a list of checksums.")
    listed = {line["name"]: line["sum"] for line in found if line}
    stray = sorted(set(files) - {CHECKSUMS} - set(listed)) + sorted(set(listed) - set(files))
    if stray:
        raise ReproKitError(f"{path} is damaged: {stray[0]} is missing, or not in its {CHECKSUMS}.")
    for name, expected in listed.items():
        if hashlib.sha256(files[name]).hexdigest() != expected:
            raise ReproKitError(f"{path} is damaged: {name} does not have its checksum.")
