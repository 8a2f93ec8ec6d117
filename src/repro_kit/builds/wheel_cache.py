"""Downloaded wheels, kept up to a total size: the least recently used are removed first."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

from repro_kit.builds.build_source import UnusableError
from repro_kit.builds.web import WebError, opened, persistently, with_credentials, without_credentials
from repro_kit.errors import StageError
from repro_kit.regressions.build import Build

_CHUNK = 1 << 20
_PART = ".part-"  # prefix of a running download's file
_ABANDONED = 3600.0  # seconds without a byte: the download has ended


class _NotStoredError(Exception):
    """The disk did not take a part of a wheel. (An OSError within `opened` would count as one of the network.)"""


class StoppedError(Exception):
    """The download was stopped: its result is no longer needed."""


class WheelCache:
    """Wheels in `directory`, at most `limit` bytes in all, not counting those in use. Safe for several threads."""

    def __init__(self, directory: Path, limit: int, *, index: str | None = None, offline: bool = False) -> None:
        self.directory = directory
        self.limit = limit
        self.offline = offline
        self._index = index  # URL of an index whose credentials are used for its files
        self.stop = threading.Event()  # ends running downloads
        self._used: set[Path] = set()
        self._locks: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)
        self._guard = threading.Lock()

    @contextmanager
    def using(self, build: Build) -> Iterator[Path]:
        """The build's wheel, which is kept while it is used. Raises UnusableError when it is not available."""
        wheel = self._path_of(build)
        with self._guard:
            self._used.add(wheel)
        try:
            yield self.fetch(build)
        finally:
            with self._guard:
                self._used.discard(wheel)

    def fetch(self, build: Build) -> Path:
        """The build's wheel, downloaded if necessary. Raises UnusableError when it is not available."""
        wheel = self._path_of(build)
        if urlsplit(build.url or "").scheme == "file":
            if not wheel.is_file():
                raise UnusableError(f"{wheel} is not there")
            return wheel
        with self._guard:
            lock = self._locks[wheel]
        with lock:
            if wheel.is_file():
                with suppress(OSError):
                    os.utime(wheel)  # the time of the last use
                return wheel
            if self.offline:
                raise UnusableError(f"{wheel.name} is not in the cache, and --offline was given")
            self._download(build, wheel)
        self.trim(keep=wheel)
        return wheel

    def has(self, build: Build) -> bool:
        """Whether the wheel is available without a download."""
        return self._path_of(build).is_file()

    def size(self) -> int:
        """The bytes of all wheels."""
        return sum(size for _, size, _ in self._entries())

    def trim(self, *, keep: Path | None = None) -> None:
        """Remove the least recently used wheels until the rest fits, and parts of downloads that were killed."""
        with self._guard:
            for path in self.directory.glob(f"*/{_PART}*"):
                with suppress(OSError):
                    if time.time() - path.stat().st_mtime > _ABANDONED:
                        path.unlink()
            entries = sorted(self._entries())
            total = sum(size for _, size, _ in entries)
            for _, size, path in entries:
                if total <= self.limit:
                    return
                if path not in self._used and path != keep:
                    shutil.rmtree(path.parent, ignore_errors=True)
                    total -= size

    def _path_of(self, build: Build) -> Path:
        parts = urlsplit(build.url or "")
        path = Path(unquote(parts.path))
        if parts.scheme == "file":
            return path
        key = hashlib.sha256(without_credentials(build.url or "").encode()).hexdigest()[:16]
        return self.directory / key / path.name

    def _entries(self) -> list[tuple[float, int, Path]]:
        entries = []
        for path in self.directory.glob("*/*.whl"):
            with suppress(OSError):
                status = path.stat()
                entries.append((status.st_mtime, status.st_size, path))
        return entries

    def _download(self, build: Build, wheel: Path) -> None:
        try:
            wheel.parent.mkdir(parents=True, exist_ok=True)
            persistently(lambda: self._transfer(build, wheel))
        except WebError as error:
            if not error.lasting:
                raise StageError(f"{error}; check the network, and run the command again.") from error
            raise UnusableError(f"its wheel cannot be downloaded: {error}") from error
        except (OSError, _NotStoredError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise StageError(
                f"Cannot store a wheel in {wheel.parent}: {reason}; free some space or lower --cache-size, and "
                "run the command again."
            ) from error

    def _transfer(self, build: Build, wheel: Path) -> None:
        handle, aside = tempfile.mkstemp(dir=wheel.parent, prefix=_PART)
        digest = hashlib.sha256()
        try:
            with os.fdopen(handle, "wb") as file, opened(with_credentials(build.url or "", self._index)) as answer:
                expected = answer.headers.get("Content-Length")
                while chunk := answer.read(_CHUNK):
                    if self.stop.is_set():
                        raise StoppedError
                    digest.update(chunk)
                    _write(file, chunk)
                received = file.tell()
            if expected and received != int(expected):
                raise WebError(f"{wheel.name} ends after {received} of {expected} bytes")
            if build.sha256 and digest.hexdigest() != build.sha256:
                raise WebError(f"{wheel.name} does not have the checksum that its index states", lasting=True)
            Path(aside).replace(wheel)
        finally:
            Path(aside).unlink(missing_ok=True)


def _write(file: IO[bytes], chunk: bytes) -> None:
    try:
        file.write(chunk)
    except OSError as error:
        raise _NotStoredError(error.strerror) from error
