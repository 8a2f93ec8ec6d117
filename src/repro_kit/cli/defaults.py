"""Defaults from ``[tool.repro-kit]`` of the nearest pyproject.toml."""

from __future__ import annotations

import math
import os
import tomllib
from pathlib import Path
from typing import Any

from repro_kit.errors import ReproKitError

#: What may be set there, and its type. Not among them: what a foreign project must not decide (`--yes`).
KEYS: dict[str, type] = {
    "timeout": float,
    "query-timeout": float,
    "jobs": int,
    "budget": int,
    "deadline": float,
    "logs": str,
    "function": str,
    "check": str,
    "border": str,
    "debug-artifacts": bool,
    "include-values": bool,
    "trace": str,
    "python": str,
    "output": str,
}
_NAMES = {float: "a number", int: "a whole number", str: "a string", bool: "true or false"}


def read_defaults(cwd: Path) -> dict[str, Any]:
    """The defaults for a command started in `cwd`, by parameter name (``query_timeout``).

    Raises ReproKitError when the file cannot be read, or has an unknown key or a value of another type.
    """
    path = _nearest(cwd)
    if path is None:
        return {}
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ReproKitError(f"{path} cannot be read: {error}.") from error
    tool = data.get("tool")
    table = tool.get("repro-kit", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise ReproKitError(f"{path}: tool.repro-kit must be a table.")
    return {key.replace("-", "_"): _checked(path, key, value) for key, value in table.items()}


def _nearest(cwd: Path) -> Path | None:
    return next((path for at in (cwd, *cwd.parents) if (path := at / "pyproject.toml").is_file()), None)


def _checked(path: Path, key: str, value: Any) -> Any:
    expected = KEYS.get(key)
    if expected is None:
        raise ReproKitError(f"{path}: [tool.repro-kit] has no key {key!r}; it knows {', '.join(KEYS)}.")
    fits = type(value) is expected or (expected is float and type(value) is int)
    if not fits:
        raise ReproKitError(f"{path}: [tool.repro-kit] {key} must be {_NAMES[expected]}, not {value!r}.")
    if expected in (int, float) and not 0 < value < math.inf:
        raise ReproKitError(f"{path}: [tool.repro-kit] {key} must be greater than 0, not {value!r}.")
    if key == "check":
        _check_symptom(path, value)
    if key == "trace" and value not in ("yes", "no", "redacted"):
        raise ReproKitError(f'{path}: [tool.repro-kit] trace must be "yes", "no" or "redacted", not {value!r}.')
    if key in ("python", "output") and os.sep in value:
        return str(path.parent / Path(value).expanduser())  # relative to the file, not to where one happens to be
    return value


def _check_symptom(path: Path, value: str) -> None:
    from repro_kit.model.symptom import parse_symptom

    try:
        parse_symptom(value)
    except ReproKitError as error:
        raise ReproKitError(f"{path}: [tool.repro-kit] check: {error}") from error
