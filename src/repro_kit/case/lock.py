"""The lock of a case: two processes that wrote to one case would mix their results."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from repro_kit.errors import UsageError

LOCK = ".lock"

#: Seconds to wait for the lock, and between two tries. A process that is killed while it starts another one leaves the
#: lock to that one, which drops the lock soon.
_PATIENCE, _PAUSE = 1.0, 0.05

#: Directories that this process has locked already: it may enter them again.
_ours: set[Path] = set()


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Hold the lock of the directory `directory`, which must exist.

    Raises UsageError when another process holds the lock, or when the directory cannot be written; nothing has changed
    then.
    """
    real = directory.resolve()
    if real in _ours:
        yield
        return
    try:
        descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UsageError(
            f"Cannot write {directory}: {error.strerror}; make it writable, or choose another place with --output."
        ) from error
    try:
        _lock(descriptor, directory)
        _ours.add(real)
        yield
    finally:
        _ours.discard(real)
        os.close(descriptor)


def _lock(descriptor: int, directory: Path) -> None:
    until = time.monotonic() + _PATIENCE
    try:
        while not _try(descriptor):
            if time.monotonic() > until:
                raise UsageError(f"Another repro-kit is working on {directory}; wait for it, or use --output.")
            time.sleep(_PAUSE)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):  # a file system without locks
            raise


def _try(descriptor: int) -> bool:
    """Take the lock if no other process holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
