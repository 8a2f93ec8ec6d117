"""Pack a bundle so that equal content gives equal bytes; unpack a bundle that may come from a stranger."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from repro_kit.bundle.archive.members import BadArchiveError, Member, opened
from repro_kit.errors import ReproKitError, StageError, UsageError
from repro_kit.files import open_plain, read_plain, write_atomic

CHECKSUMS = "MANIFEST.sha256"

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can hold
_MODE = stat.S_IFREG | 0o644

LARGEST_SHOWN = 4 << 20  # bytes of one file that can be shown
MOST_SHOWN = 16 << 20  # bytes of all files that can be shown
_SUM_LINE = re.compile(r"^(?P<sum>[0-9a-f]{64}) [ *](?P<name>.+)$")

#: The forms of an archive by the end of its name.
FORMS = (".zip", ".tar.gz", ".tgz")


def checksums(files: Mapping[str, bytes]) -> bytes:
    """The text that ``sha256sum -c`` reads."""
    return "".join(f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files)).encode()


def pack(path: Path, files: Mapping[str, bytes]) -> None:
    """Write `files` to `path` as zip or tar, by its name (`FORMS`), completely or not at all. Raises ReproKitError."""
    data = _tar(files) if path.name.endswith((".tar.gz", ".tgz")) else _zip(files)
    try:
        write_atomic(path, data)
    except OSError as error:
        raise StageError(
            f"Cannot write the bundle {path}: {error.strerror}; choose another place with --output."
        ) from error


def _zip(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system = 3  # Unix, on every machine that packs
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
    """Write the files of bundle `path` to the directory `into`, which is new or empty.

    Raises ReproKitError if `path` is not a plain, complete and undamaged bundle, and then leaves no file behind.
    """
    with _read(path) as files:
        for _ in files:
            pass  # check every file before the first one is written
    new = not into.exists()
    try:
        with _read(path) as files:
            sums = {member.name: _write(member, into) for member in files}
        _check_sums(path, _listed_in(path, into), sums, sums)
    except BaseException:
        for left in [into] if new else into.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)
        raise


def _write(member: Member, into: Path) -> str:
    """Write a file in pieces, and return its checksum."""
    target, digest = into / member.name, hashlib.sha256()
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:
        for piece in member.checked():
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()


def _listed_in(path: Path, into: Path) -> bytes | None:
    checksums = into / CHECKSUMS
    return read_plain(checksums, LARGEST_SHOWN) if checksums.is_file() else None


def read(path: Path, wanted: Callable[[str], bool] = lambda name: True) -> dict[str, bytes]:
    """The `wanted` files of bundle `path`. Raises like `unpack`, and if they are too large to show."""
    names: list[str] = []
    files: dict[str, bytes] = {}
    with _read(path) as members:
        for member in members:
            names.append(member.name)
            if member.name == CHECKSUMS or wanted(member.name):
                files[member.name] = _kept(path, member)
                if sum(map(len, files.values())) > MOST_SHOWN:
                    raise _too_large(path, "its text", MOST_SHOWN)
    _check_sums(
        path, files.get(CHECKSUMS), names, {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    )
    return {name: data for name, data in files.items() if wanted(name)}


def read_one(path: Path, name: str) -> bytes | None:
    """The first file called `name` in any folder of the archive at `path`, a bundle or not; None if there is none."""
    with _read(path) as members:
        for member in members:
            if member.name.rpartition("/")[2] == name:
                return _kept(path, member)
    return None


def _kept(path: Path, member: Member) -> bytes:
    if member.size > LARGEST_SHOWN:
        raise _too_large(path, f"its {member.name}", LARGEST_SHOWN)
    return b"".join(member.checked())


def _too_large(path: Path, subject: str, most: int) -> ReproKitError:
    return UsageError(f"{path} cannot be shown: {subject} is larger than {most >> 20} MiB.")


@contextmanager
def _read(path: Path) -> Iterator[Iterator[Member]]:
    """The files in an archive. Every problem of the archive becomes one sentence."""
    try:
        with opened(path) as members:
            yield (member for member in members if member.is_file)
    except (BadArchiveError, zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError) as error:
        raise UsageError(f"{path} is not a bundle, or is damaged: {str(error)[:300]}.") from error
    except (NotImplementedError, RuntimeError, ValueError, LookupError, ArithmeticError, struct.error) as error:
        raise UsageError(f"{path} is damaged: {str(error)[:300]}.") from error
    except OSError as error:  # gzip's BadGzipFile is an OSError without an error number
        raise UsageError(f"Cannot read {path}: {error.strerror or str(error)[:300]}.") from error


def _check_sums(path: Path, text: bytes | None, names: Iterable[str], sums: Mapping[str, str]) -> None:
    """Raise ReproKitError unless the checksum list `text` names exactly the files `names`, with these `sums`."""
    if text is None:
        raise UsageError(f"{path} is not a bundle: it has no {CHECKSUMS}.")
    listed = _listed(text)
    if listed is None:
        raise UsageError(f"{path} is damaged: its {CHECKSUMS} is not a list of checksums.")
    stray = sorted(set(names) - {CHECKSUMS} - set(listed)) + sorted(set(listed) - set(names))
    if stray:
        raise UsageError(f"{path} is damaged: {stray[0]} is missing, or not in its {CHECKSUMS}.")
    for name, expected in listed.items():
        if sums.get(name, expected) != expected:
            raise UsageError(f"{path} is damaged: {name} does not have its checksum.")


def _listed(text: bytes) -> dict[str, str] | None:
    """The checksums by name; None if `text` is not a list of checksums."""
    matches = [_SUM_LINE.match(line) for line in text.decode("utf-8", "replace").splitlines() if line]
    return {line["name"]: line["sum"] for line in matches if line} if all(matches) else None


def wrong_sums(directory: Path) -> list[str]:
    """Names of the files of an unpacked bundle that were changed or removed since it was packed."""
    listed = _listed(read_plain(directory / CHECKSUMS, LARGEST_SHOWN))
    if listed is None:
        return [CHECKSUMS]
    return [name for name, expected in sorted(listed.items()) if _sum(directory / name) != expected]


def _sum(path: Path) -> str:
    if path.is_symlink() or not path.is_file():
        return ""
    with open_plain(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
