"""Downloaded wheels, kept up to a size: the least recently used go first."""

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
from urllib.parse import unquote, urlsplit

from repro_kit.bisect import Build
from repro_kit.builds.source import UnusableError
from repro_kit.builds.wheels.web import WebError, opened, persistently, with_credentials, without_credentials
from repro_kit.errors import StageError

_CHUNK = 1 << 20
_PART = ".part-"  # of a download that is under way
_ABANDONED = 3600.0  # seconds without a byte after which it is not


class StoppedError(Exception):
    """The download is no longer wanted."""


class WheelCache:
    """Wheels in `directory`, at most `limit` bytes in all, but for those in use; safe to use from several threads."""

    def __init__(self, directory: Path, limit: int, *, index: str | None = None, offline: bool = False) -> None:
        self.directory = directory
        self.limit = limit
        self.offline = offline
        self._index = index  # its credentials are used for its files
        self.stop = threading.Event()  # ends downloads that are under way
        self._used: set[Path] = set()
        self._locks: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)
        self._guard = threading.Lock()

    @contextmanager
    def using(self, build: Build) -> Iterator[Path]:
        """The build's wheel, which stays as long as it is used. Raises UnusableError when it cannot be had."""
        place = self._place(build)
        with self._guard:
            self._used.add(place)
        try:
            yield self.fetch(build)
        finally:
            with self._guard:
                self._used.discard(place)

    def fetch(self, build: Build) -> Path:
        """The build's wheel, downloaded unless it is there. Raises UnusableError when it cannot be had."""
        place = self._place(build)
        if urlsplit(build.url or "").scheme == "file":
            if not place.is_file():
                raise UnusableError(f"{place} is not there")
            return place
        with self._guard:
            lock = self._locks[place]
        with lock:
            if place.is_file():
                with suppress(OSError):
                    os.utime(place)  # the time of the last use
                return place
            if self.offline:
                raise UnusableError(f"{place.name} is not in the cache, and --offline was given")
            self._download(build, place)
        self.trim(keep=place)
        return place

    def has(self, build: Build) -> bool:
        """Whether it is there without a download."""
        return self._place(build).is_file()

    def size(self) -> int:
        """Bytes of all wheels."""
        return sum(size for _, size, _ in self._entries())

    def trim(self, *, keep: Path | None = None) -> None:
        """Remove the least recently used wheels until the rest fits, and what a kill has left of downloads."""
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

    def _place(self, build: Build) -> Path:
        parts = urlsplit(build.url or "")
        path = Path(unquote(parts.path))
        if parts.scheme == "file":
            return path
        key = hashlib.sha256(without_credentials(build.url or "").encode()).hexdigest()[:16]
        return self.directory / key / path.name

    def _entries(self) -> list[tuple[float, int, Path]]:
        found = []
        for path in self.directory.glob("*/*.whl"):
            with suppress(OSError):
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
        return found

    def _download(self, build: Build, place: Path) -> None:
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            persistently(lambda: self._transfer(build, place))
        except WebError as error:
            if not error.lasting:
                raise StageError(f"{error}; check the network, and run it again to go on.") from error
            raise UnusableError(f"its wheel cannot be downloaded: {error}") from error
        except OSError as error:
            raise StageError(
                f"Cannot store a wheel in {place.parent}: {error.strerror}; free some space or lower --cache-size, and "
                "run it again to go on."
            ) from error

    def _transfer(self, build: Build, place: Path) -> None:
        handle, aside = tempfile.mkstemp(dir=place.parent, prefix=_PART)
        digest = hashlib.sha256()
        try:
            with os.fdopen(handle, "wb") as file, opened(with_credentials(build.url or "", self._index)) as answer:
                expected = answer.headers.get("Content-Length")
                while chunk := answer.read(_CHUNK):
                    if self.stop.is_set():
                        raise StoppedError
                    digest.update(chunk)
                    file.write(chunk)
                received = file.tell()
            if expected and received != int(expected):
                raise WebError(f"{place.name} ends after {received} of {expected} bytes")
            if build.sha256 and digest.hexdigest() != build.sha256:
                raise WebError(f"{place.name} does not have the checksum that its index states", lasting=True)
            Path(aside).replace(place)
        finally:
            Path(aside).unlink(missing_ok=True)


def default_cache() -> Path:
    """Where wheels are kept: below ``XDG_CACHE_HOME``, else ``~/.cache``."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "repro-kit"
