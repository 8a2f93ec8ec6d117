"""Directories for a while: gone at the end, and when this process is killed, removed by the next repro-kit.

Who owns one holds a lock on it, which the system takes away from the dead, on whatever host they ran. The name tells
the owner's process to people.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "repro-kit"
_NAME = re.compile(r"(repro-kit|run)-[0-9]+-[a-z0-9_]{8}")

#: Those of this process, which a keeper removes when this process dies (`kept.py`).
_held: set[Path] = set()


class Scratch:
    """A new directory below `parent` (default: the one for temporary files), to be removed."""

    def __init__(self, parent: Path | None = None, prefix: str = _PREFIX) -> None:
        """Make it; what dead processes have left beside it is removed first."""
        if parent is not None:
            parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(parent or Path(tempfile.gettempdir()))
        lock = None
        while lock is None:  # it may be taken for abandoned before it is locked
            # The real path, since processes see their directory through getcwd().
            self.path = Path(tempfile.mkdtemp(prefix=f"{prefix}-{os.getpid()}-", dir=parent)).resolve()
            try:
                lock = _locked(self.path)
            except OSError:  # a file system without locks, where nobody takes it for abandoned either
                break
        self._lock = lock
        _held.add(self.path)

    def remove(self) -> None:
        """Remove it and all that is in it."""
        remove_tree(self.path)
        _held.discard(self.path)
        if self._lock is not None:
            os.close(self._lock)


@contextmanager
def scratch(parent: Path | None = None, prefix: str = _PREFIX) -> Iterator[Path]:
    """A `Scratch` for the time of the context."""
    made = Scratch(parent, prefix)
    try:
        yield made.path
    finally:
        made.remove()


def held() -> list[Path]:
    """The directories that this process has made and not yet removed."""
    return sorted(_held)


def remove_abandoned(parent: Path) -> None:
    """Remove the directories below `parent` that a process of this user made which has died since."""
    with suppress(OSError):
        for path in [entry for entry in parent.iterdir() if _NAME.fullmatch(entry.name)]:
            with suppress(OSError):
                if path.is_symlink() or path.stat().st_uid != os.getuid():
                    continue
                lock = _locked(path)
                if lock is not None:
                    remove_tree(path)
                    os.close(lock)


def _locked(path: Path) -> int | None:
    """A descriptor that locks the directory `path`; None where it is gone, or a living process has it locked.

    Raises OSError where directories cannot be locked.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.exists():
            return descriptor
    except BlockingIOError:
        pass
    except OSError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def remove_tree(path: Path) -> None:
    """Remove a directory, with what a script has made unreadable in it; what resists stays."""
    shutil.rmtree(path, ignore_errors=True)
    if path.is_dir():
        for directory, _, _ in os.walk(path):
            with suppress(OSError):
                Path(directory).chmod(0o700)
        shutil.rmtree(path, ignore_errors=True)
