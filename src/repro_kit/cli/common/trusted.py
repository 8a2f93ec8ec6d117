"""Which configuration files to trust: those that nobody but the user can have written."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from repro_kit.errors import UsageError

_LARGEST = 1 << 20  # bytes of a file of settings
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True)
class SettingsFile:
    """A configuration file. `ignored` says why the file is ignored; `content` is empty then."""

    path: Path
    content: bytes = b""
    ignored: str = ""


def project_file(cwd: Path) -> SettingsFile | None:
    """The nearest pyproject.toml from `cwd` upward, if there is one; an ignored one must mention repro-kit to count.

    The file is trusted if it lies between `cwd` and the root of its repository (without a repository: in `cwd`), and
    if it and every directory on the way to it belong to the user and nobody else can write them. `cwd` has no links.
    """
    path = next((at / "pyproject.toml" for at in (cwd, *cwd.parents) if _is_there(at / "pyproject.toml")), None)
    if path is None:
        return None
    root = _project_root(cwd)
    why = "" if path.parent.is_relative_to(root) else f"it lies outside of the project, {root}"
    on_the_way = [at for at in (cwd, *cwd.parents) if at.is_relative_to(path.parent)]
    why = why or next((problem for at in on_the_way if (problem := _problem_of(at.lstat(), f"{at} "))), "")
    try:
        content, problem = _read(path, os.O_NOFOLLOW)
    except OSError as error:
        content, problem = b"", "it is a link" if path.is_symlink() else f"it cannot be read ({error.strerror})"
    if not (why or problem):
        return SettingsFile(path, content)
    return SettingsFile(path, ignored=why or problem) if path.is_symlink() or b"repro-kit" in content else None


def user_file() -> SettingsFile | None:
    """The user's own configuration; None without one.

    Raises ReproKitError if somebody else could have written it.
    """
    path = user_path()
    if path is None or not _is_there(path):
        return None
    try:
        path = path.resolve(strict=True)  # a link is fine: the user made it
        content, why = _read(path, os.O_NOFOLLOW)
        why = why or next((problem for at in path.parents if (problem := _shared(at))), "")
    except (OSError, RuntimeError) as error:
        raise UsageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from error
    if why:
        raise UsageError(
            f"{path} cannot be trusted: {why}; make sure that only you can write it (chmod go-w), or remove it."
        )
    return SettingsFile(path, content)


def user_path() -> Path | None:
    """The path of the user's own configuration; None for a user without a home."""
    home = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    if home.is_absolute():
        return home / "repro-kit" / "config.toml"
    try:
        return Path.home() / ".config" / "repro-kit" / "config.toml"
    except RuntimeError:  # a user without a home
        return None


def _is_there(path: Path) -> bool:
    return os.path.lexists(path) and not stat.S_ISDIR(path.lstat().st_mode)


def _project_root(cwd: Path) -> Path:
    """The nearest directory with a `.git` of the user's own, else `cwd`."""
    root = next((at for at in (cwd, *cwd.parents) if os.path.lexists(at / ".git")), cwd)
    return root if root == cwd or (root / ".git").lstat().st_uid == os.geteuid() else cwd


def _read(path: Path, flags: int) -> tuple[bytes, str]:
    """The content of the file, and why it cannot be trusted. Never blocks, whatever kind of file it is."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    with open(handle, "rb") as file:  # noqa: PTH123 - a descriptor
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            return b"", "it is not a regular file"
        content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            return content, f"it is larger than {_LARGEST >> 20} MiB"
        return content, _problem_of(status, "it ")


def _problem_of(status: os.stat_result, subject: str) -> str:
    """Why the file or directory cannot be trusted; `subject` begins the sentence."""
    if status.st_uid != os.geteuid():
        return f"{subject}belongs to another user"
    return f"{subject}can be written by others" if status.st_mode & _OTHERS else ""


def _shared(directory: Path) -> str:
    """Why others could replace a file in `directory`."""
    status = directory.lstat()
    if status.st_uid not in (os.geteuid(), 0):
        return f"{directory} belongs to another user"
    others = status.st_mode & _OTHERS and not status.st_mode & stat.S_ISVTX
    return f"{directory} can be written by others" if others else ""
