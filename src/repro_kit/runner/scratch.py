"""Temporary directories, which the next repro-kit removes when this process is killed.

The directories lie where a compiler can be given their paths. The owner of a directory holds a lock on
it. The system releases the lock when the owner dies, on any host. The name of a directory has the owner's process id,
for people to read.
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

from repro_kit.runner.places import temporary

_NAME = re.compile(r"repro-kit-[0-9]+-[a-z0-9_]{8}")

#: The directories of this process. A supervisor removes them when this process dies (`SupervisedCommand`).
_held: set[Path] = set()


class Scratch:
    """A new temporary directory in `parent` (default: the directory for temporary files)."""

    def __init__(self, parent: Path | None = None) -> None:
        """Make the directory, after removing those that dead processes left beside it."""
        parent = parent or temporary()
        remove_abandoned(parent)
        lock = None
        while lock is None:  # another repro-kit may remove the directory before it is locked
            # The real path, since processes see their directory through getcwd().
            self.path = Path(tempfile.mkdtemp(prefix=f"repro-kit-{os.getpid()}-", dir=parent)).resolve()
            try:
                lock = _locked(self.path)
            except OSError:  # a file system without locks: no repro-kit removes directories there
                break
        self._lock = lock
        _held.add(self.path)

    def remove(self) -> None:
        """Remove the directory and its contents."""
        remove_tree(self.path)
        _held.discard(self.path)
        if self._lock is not None:
            os.close(self._lock)


@contextmanager
def scratch(parent: Path | None = None) -> Iterator[Path]:
    """Make a temporary directory (`Scratch`), and remove it when the block ends."""
    made = Scratch(parent)
    try:
        yield made.path
    finally:
        made.remove()


def held() -> list[Path]:
    """Return the temporary directories that this process has made and not yet removed."""
    return sorted(_held)


def remove_abandoned(parent: Path) -> None:
    """Remove the temporary directories in `parent` that dead processes of this user left."""
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
    """Lock the directory `path` and return the descriptor; None if it is gone, or a living process holds the lock.

    Raises OSError if directories cannot be locked.
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
    """Remove a directory, even one that a script made unreadable. Files that cannot be removed stay."""
    shutil.rmtree(path, ignore_errors=True)
    if path.is_dir():
        _open_up(path)
        shutil.rmtree(path, ignore_errors=True)


def _open_up(directory: Path) -> None:
    """Make a directory and all below it readable: from the top, since nothing below a closed directory is seen."""
    with suppress(OSError):
        directory.chmod(0o700)
        for path in directory.iterdir():
            if path.is_dir() and not path.is_symlink():
                _open_up(path)
