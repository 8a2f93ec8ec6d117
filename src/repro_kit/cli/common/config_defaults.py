"""Defaults from files: the user's own configuration, and ``[tool.repro-kit]`` of the project's pyproject.toml."""

from __future__ import annotations

import math
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro_kit.cli.common.trusted import project_file, user_file, user_path
from repro_kit.errors import ReproKitError, UsageError
from repro_kit.options.commands import every_option
from repro_kit.options.declare import Option, Source

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
