"""Read the recording that `repro_kit.watch` left in a directory (probe/repro_probe/entry/watch.py)."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.errors import Exit, Stop, UsageError
from repro_kit.files import read_plain
from repro_kit.probe.repro_probe.protocol.findings import WATCHED_DIRECTORY, WATCHED_FILE, WATCHED_SCHEMA
from repro_kit.runner.read_findings import Findings, read_findings
from repro_kit.serialize import from_data, loads

_LARGEST = 8 << 20  # bytes of the file


@dataclass(frozen=True)
class Watched:
    """`watched.json` (probe/repro_probe/entry/watch.py)."""

    schema: int
    python: str
    torch: str
    command: tuple[str, ...]
    cwd: str
    created: str
    graphs: int = 0
    dropped: int = 0  # graphs that were dropped because there were too many
    variables: dict[str, str] = field(default_factory=dict)


def is_watched(path: Path) -> bool:
    """Whether `repro_kit.watch` wrote the directory `path`."""
    return (path / WATCHED_FILE).is_file()


def read_watched(path: Path) -> Watched:
    """The `watched.json` in `path`. Raises ReproKitError when it is damaged, or newer than this repro-kit."""
    try:
        data = loads(watched_text(path))
        if isinstance(data.get("schema"), int) and data["schema"] > WATCHED_SCHEMA:
            raise UsageError(f"{path} was written by a newer repro-kit (schema {data['schema']}); upgrade.")
        return from_data(data, Watched)
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path}/{WATCHED_FILE} cannot be read; let repro_kit.watch write it anew.") from error


def watched_text(path: Path) -> str:
    """The text of the file that `repro_kit.watch` wrote to directory `path`."""
    return read_plain(path / WATCHED_FILE, _LARGEST).decode("utf-8", "replace")


def lay_out(case: Case, directory: Path) -> Findings:
    """Copy the recording of the case to `directory`, for the capture; returns the findings of the probe in it."""
    shutil.copytree(case.path / WATCHED_DIRECTORY, directory, ignore=shutil.ignore_patterns("trace"))
    return read_findings(directory)


def nothing_alone(case: Case, note: str) -> Stop:
    """The end of the work on a watched case when no graph fails alone: its process cannot be run again."""
    watched = read_watched(case.path)
    return Stop(
        Exit.FAILED,
        f"{note}, and the recording has no values of inputs; to continue, run the program itself: "
        f"repro-kit collect {shlex.join(watched.command[1:])} (in {watched.cwd})",
    )
