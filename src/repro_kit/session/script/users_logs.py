"""The trace and log files that the user's own variables name: checked before a run, and written after it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from repro_kit.errors import ReproKitError, UsageError
from repro_kit.ui import Ui

_LOGS = "TORCH_LOGS_OUT"
_TRACES = ("TORCH_TRACE", "TORCH_DTRACE")


def check(env: Mapping[str, str] = os.environ) -> None:
    """Raise ReproKitError for a path that cannot be written, so that a long run does not fail in the end."""
    if env.get(_LOGS):
        file = Path(env[_LOGS])
        if not file.parent.is_dir():
            raise _refused(_LOGS, file, f"there is no directory {file.parent}", "create it")
        if file.is_dir():
            raise _refused(_LOGS, file, "it is a directory", "name a file")
        _must_be_writable(_LOGS, file, file if file.exists() else file.parent)
    name, directory = _trace(env)
    if directory is not None:  # torch creates the directory and its parents
        existing = next(path for path in (directory, *directory.absolute().parents) if path.exists())
        if not existing.is_dir():
            raise _refused(name, directory, f"{existing} is not a directory", "name a directory")
        _must_be_writable(name, directory, existing)


def _must_be_writable(name: str, value: Path, existing: Path) -> None:
    if not os.access(existing, os.W_OK):
        raise _refused(name, value, f"{existing} cannot be written", "name another path")


def _refused(name: str, value: Path, why: str, what_to_do: str) -> ReproKitError:
    return UsageError(f"{name} is {value}, and {why}; {what_to_do}, or unset {name}.")


def _trace(env: Mapping[str, str]) -> tuple[str, Path | None]:
    name = next((name for name in _TRACES if env.get(name)), "")
    return name, Path(env[name]) if name else None


def give_back(run_directory: Path, ui: Ui, env: Mapping[str, str] = os.environ) -> None:
    """Append the logs and copy the trace of the run in `run_directory` to the paths in the user's variables.

    Existing files keep their content. A warning names what cannot be written, which stays in `run_directory`.
    """
    logs = run_directory / "logs" / "torch.txt"
    if env.get(_LOGS) and logs.exists():
        try:
            _append(logs, Path(env[_LOGS]))
        except OSError as error:
            ui.warn(f"The logs cannot be added to {env[_LOGS]} ({_LOGS}): {error.strerror}; the logs are in {logs}.")
    name, directory = _trace(env)
    if directory is not None:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for log in sorted(path for path in (run_directory / "trace").iterdir() if path.is_file()):
                _copy_beside(log, directory)
        except OSError as error:
            ui.warn(
                f"The trace cannot be copied to {directory} ({name}): {error.strerror}; "
                f"the trace is in {run_directory / 'trace'}."
            )


def _append(source: Path, target: Path) -> None:
    flags = (
        os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK
    )  # without O_NONBLOCK, opening a pipe without a reader waits
    with source.open("rb") as text, os.fdopen(os.open(target, flags, 0o666), "ab") as file:
        shutil.copyfileobj(text, file)


def _copy_beside(source: Path, directory: Path) -> None:
    """Copy a file into `directory`, under a name that is free."""
    count = 1
    target = directory / source.name
    while True:
        try:
            with source.open("rb") as text, target.open("xb") as file:
                try:
                    shutil.copyfileobj(text, file)
                    return
                except OSError:
                    with suppress(OSError):
                        target.unlink()
                    raise
        except FileExistsError:
            count += 1
            target = directory / f"{source.stem}_{count}{source.suffix}"
