"""Read the files that the probe writes. Damaged files and lines are left out, and are named in `problems`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from repro_kit.model.serialize import from_data, loads
from repro_kit.probe.repro_probe.protocol.findings import finding

T = TypeVar("T")


def read_files(
    directory: Path, name: str, cls: type[T], problems: list[str], process: object = "*"
) -> Iterator[tuple[Path, T]]:
    """Yield the files `name` of all processes, or of `process` alone, with their data."""
    for path in sorted(directory.glob(finding(name, process))):
        try:
            yield path, from_data(loads(path.read_bytes()), cls)
        except (OSError, ValueError) as error:
            problems.append(f"{path.name}: {error}")


def read_lines(path: Path, cls: type[T], problems: list[str]) -> list[T]:
    """Return the data of each line. A partial last line is ignored, since a killed process leaves one."""
    read: list[T] = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
        try:
            read.append(from_data(loads(line), cls))
        except ValueError as error:
            problems.append(f"{path.name}, line {number}: {error}")
    return read


def process_of(path: Path) -> int:
    """Return the id of the process that wrote `path`; 0 if the file name has none."""
    pid = path.stem.rpartition("-")[2]
    return int(pid) if pid.isdecimal() else 0
