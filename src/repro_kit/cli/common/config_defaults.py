"""Defaults from files that nobody but the user can have written: a configuration, and the project's pyproject.toml."""

from __future__ import annotations

import math
import os
import stat
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro_kit.errors import ReproKitError, UsageError
from repro_kit.options.commands import every_option
from repro_kit.options.declare import Option, Source

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


_OPTIONS = every_option()
#: The options that a file may set, and what kind of value each has.
KEYS: dict[str, type] = {name: each.kind for name, each in _OPTIONS.items() if each.rule.source is not Source.COMMAND}
_NAMES = {float: "a number", int: "a whole number", str: "a string", bool: "true or false"}


@dataclass(frozen=True)
class Default:
    """A value from a file."""

    key: str
    value: Any
    path: Path

    @property
    def name(self) -> str:
        """The parameter's name (``query_timeout``)."""
        return self.key.replace("-", "_")

    @property
    def announcement(self) -> str:
        """The note for the user; empty for a setting that is not announced."""
        return f"{self.key} = {self.value!r} is set by {self.shown_path}." if _OPTIONS[self.key].rule.announced else ""

    @property
    def shown_path(self) -> str:
        """The path of the file, safe to print."""
        return shown(self.path)


@dataclass(frozen=True)
class Defaults:
    """The values that files set, by parameter name, and notes about files that are ignored."""

    values: dict[str, Default]
    notes: tuple[str, ...] = ()


def read_defaults(cwd: Path) -> Defaults:
    """The defaults for a command started in `cwd`. The project's file wins over the user's.

    Raises ReproKitError when a file cannot be read, has an unknown key or a value of the wrong type, or sets an
    option that its kind of file may not set.
    """
    own, project = user_file(), project_file(cwd)
    defaults: list[Default] = []
    notes: tuple[str, ...] = ()
    if own is not None:
        defaults += [_checked(own.path, key, value, cwd) for key, value in _toml(own.path, own.content).items()]
    if project is not None and project.ignored:
        notes = (f"{shown(project.path)} is ignored: {project.ignored}.",)
    elif project is not None:
        defaults += [_of_project(project.path, key, value, cwd) for key, value in _table(project.path, project.content)]
    return Defaults({default.name: default for default in defaults}, notes)


def shown(path: Path) -> str:
    """`path` as text that is safe to print in a terminal."""
    return str(path) if str(path).isprintable() else repr(str(path))


def _toml(path: Path, content: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{shown(path)} cannot be read: {error}.") from error


def _table(path: Path, content: bytes) -> list[tuple[str, Any]]:
    tool = _toml(path, content).get("tool")
    table = tool.get("repro-kit", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise UsageError(f"{shown(path)}: tool.repro-kit must be a table.")
    return list(table.items())


def _of_project(path: Path, key: str, value: Any, cwd: Path) -> Default:
    """The default, if a project's file may set it."""
    option = _OPTIONS.get(key)
    if option is not None and not _may_be_the_projects(option, value):
        instead = f"give --{key} on the command line"
        if option.rule.source is Source.USER:
            instead += f", or set it in {user_path()}"
        does = option.rule.does or "names code"
        raise UsageError(f"{shown(path)}: a project may not set {key} = {value!r}, which {does}; {instead}.")
    default = _checked(path, key, value, cwd)
    if key == "output" and not (cwd / default.value).resolve().is_relative_to(path.parent):
        raise UsageError(
            f"{shown(path)}: a project may not set output = {value!r}, which lies outside of the project; "
            "give --output on the command line."
        )
    return default


def _may_be_the_projects(option: Option, value: Any) -> bool:
    if option.long == "check":  # a baseline names a backend, and that is code
        return "@" not in str(value)
    return option.rule.source is Source.PROJECT or value in option.rule.harmless


def _checked(path: Path, key: str, value: Any, cwd: Path) -> Default:
    expected = KEYS.get(key)
    where = f"{shown(path)}: [tool.repro-kit]" if path.name == "pyproject.toml" else f"{shown(path)}:"
    if expected is None and key in _OPTIONS:
        does = _OPTIONS[key].rule.does
        raise UsageError(f"{where} {key} is for the command line alone; the option {does}.")
    if expected is None:
        raise UsageError(f"{where} has no key {key!r}; the keys are {', '.join(KEYS)}.")
    fits = type(value) is expected or (expected is float and type(value) is int)
    if not fits:
        raise UsageError(f"{where} {key} must be {_NAMES[expected]}, not {value!r}.")
    if expected in (int, float) and not 0 < value < math.inf:
        raise UsageError(f"{where} {key} must be greater than 0, not {value!r}.")
    if expected is str and "\0" in value:
        raise UsageError(f"{where} {key} has a NUL character.")
    try:
        (_OPTIONS[key].check or bool)(value)
    except ReproKitError as error:
        raise UsageError(f"{where} {key}: {error}") from error
    if key in ("python", "output") and os.sep in value:
        value = str(path.parent / Path(value).expanduser())  # relative to the file, not to the current directory
    return Default(key, value, path)
