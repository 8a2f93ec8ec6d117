"""The lock of a case: two processes that write one case would mix their results."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from repro_kit.errors import UsageError

LOCK = ".lock"

#: Directories that this process has locked already: whoever asks again within may go on.
_ours: set[Path] = set()


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """Hold the lock of the directory `place`, which is there.

    Raises ReproKitError when another process holds it, or `place` cannot be written; nothing has changed then.
    """
    real = place.resolve()
    if real in _ours:
        yield
        return
    try:
        descriptor = os.open(place / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UsageError(
            f"Cannot write {place}: {error.strerror}; make it writable, or choose another place with --output."
        ) from error
    try:
        _lock(descriptor, place)
        _ours.add(real)
        yield
    finally:
        _ours.discard(real)
        os.close(descriptor)


def _lock(descriptor: int, place: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"Another repro-kit is at work on {place}; wait for it, or use --output.") from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):  # a file system without locks
            raise
