"""Where temporary files lie, so that a compiler can be given their paths, and who removes them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shlex
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from repro_kit.errors import UsageError

_HARMLESS = re.compile(r"[A-Za-z0-9_./+-]+")
OTHERS = ("/tmp", "/var/tmp")


def breaks_commands(path: Path) -> bool:
    """Whether Inductor's command lines fall apart at this path."""
    text = os.path.abspath(path)  # noqa: PTH100 - as torch does
    try:
        return shlex.split(text) != [text]
    except ValueError:  # a quote without its end
        return True


def is_harmless(path: Path) -> bool:
    """Whether every tool can be given the real path of `path` without quotes."""
    return _HARMLESS.fullmatch(os.path.realpath(path)) is not None


def temporary() -> Path:
    """The directory for temporary files: the system's, or another if a compiler could not be given its path."""
    usual = Path(tempfile.gettempdir())
    others = (other for other in map(Path, OTHERS) if is_harmless(other) and os.access(other, os.W_OK | os.X_OK))
    return usual if is_harmless(usual) else next(others, usual)


def temporary_variables() -> dict[str, str]:
    """The variables that send the temporary files of repro-kit's own runs to `temporary`; none if they go anyway.

    Runs of the user's command get none: if the user's own directory makes compilations fail, these fail alike.
    """
    place = temporary()
    return {} if place == Path(tempfile.gettempdir()) else {"TMPDIR": str(place)}


def cache_home() -> Path:
    """The directory for what repro-kit keeps for this user: below ``XDG_CACHE_HOME``, else ``~/.cache``."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "repro-kit"


def instead_of(directory: Path) -> Path:
    """`directory`, or, if a compiler could not be given its path, another: the same one every time.

    Raises UsageError if that one belongs to somebody else.
    """
    if is_harmless(directory):
        return directory
    name = hashlib.sha256(os.fsencode(os.path.abspath(directory))).hexdigest()[:16]  # noqa: PTH100
    if is_harmless(cache_home()):
        return cache_home() / "places" / name
    own = temporary() / f"repro-kit-of-{os.getuid()}"
    own.mkdir(mode=0o700, exist_ok=True)
    status = own.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise UsageError(f"{own} is not yours alone; remove it, or set XDG_CACHE_HOME to a path without blanks.")
    return own / name


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
