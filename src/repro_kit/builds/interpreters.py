"""Find the interpreter that a path, a name, an environment or a command means."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from repro_kit.errors import UsageError


def default_python(env: Mapping[str, str]) -> str:
    """The interpreter of the active virtual or conda environment; else ours if it has torch; else the first on PATH."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        environment = env.get(variable)
        interpreter = _in_environment(Path(environment)) if environment else None
        if interpreter:
            return interpreter
    if importlib.util.find_spec("torch") is not None:  # finds torch without importing it
        return sys.executable
    return (
        shutil.which("python3", path=env.get("PATH")) or shutil.which("python", path=env.get("PATH")) or sys.executable
    )


def find_python(given: str | None, cwd: Path, env: Mapping[str, str], guess: str | None = None) -> str:
    """The interpreter that `given` means: a path, a name on PATH, or the directory of an environment.

    None means `guess`, or else the default. Raises UsageError when there is no such interpreter.
    """
    if given is None:
        return guess or default_python(env)
    path = cwd / Path(given).expanduser()
    interpreter = _in_environment(path) if path.is_dir() else executable(str(Path(given).expanduser()), cwd, env)
    if interpreter is None:
        wrong = "is not executable" if path.is_file() else "does not exist" if not path.exists() else "has no python"
        raise UsageError(f"--python {given} {wrong}; give the path of an interpreter that has torch.")
    return interpreter


def _in_environment(directory: Path) -> str | None:
    for name in ("bin/python", "bin/python3", "python.exe", "Scripts/python.exe"):
        if os.access(directory / name, os.X_OK):
            return str(directory / name)
    return None


def executable(name: str, cwd: Path, env: Mapping[str, str]) -> str | None:
    """The path of command `name`; None when there is none."""
    if os.sep in name:
        path = cwd / name
        return str(path) if path.is_file() and os.access(path, os.X_OK) else None
    return shutil.which(name, path=env.get("PATH"))


def interpreter_behind(program: str, env: Mapping[str, str]) -> str | None:
    """The interpreter that runs `program`: itself, or the one in its ``#!`` line; None when unknown."""
    if Path(program).name.startswith("python"):
        return program
    with Path(program).open("rb") as file:
        first = file.readline(500)
    if first[:2] != b"#!" or b"python" not in first:
        return None
    words = first[2:].decode(errors="replace").split()
    if Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-")]
    return shutil.which(words[0], path=env.get("PATH")) if words else None
