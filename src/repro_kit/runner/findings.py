"""What the probe left behind in a run, as typed data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repro_kit.model.failure import ExceptionLink
from repro_kit.model.serialize import from_data, loads
from repro_kit.model.timing import CompiledCall


@dataclass(frozen=True)
class Process:
    """A process of the run that imported torch."""

    pid: int
    executable: str
    python: str
    torch: str
    time: float  # seconds since the epoch
    rank: str | None = None


@dataclass(frozen=True)
class Uncaught:
    """An exception that ended a process or a thread."""

    pid: int
    time: float
    links: tuple[ExceptionLink, ...]
    tolerance: tuple[float, float] | None = None  # (rtol, atol) that the user's check states, when that raised it


@dataclass(frozen=True)
class Findings:
    """All of it; each tuple in order of time."""

    processes: tuple[Process, ...] = ()
    exceptions: tuple[Uncaught, ...] = ()
    stacks: tuple[str, ...] = ()  # faulthandler's text, one a process that crashed or hung
    config: dict[str, Any] = field(default_factory=dict)  # non-default, of the first process that ended well
    threads: int | None = None
    modules: tuple[str, ...] = ()  # files of the user's own modules
    compiled: tuple[CompiledCall, ...] = ()  # what was measured, of the process that measured most
    peak_memory: int = 0  # bytes that one process has held at most
    problems: tuple[str, ...] = ()  # of the probe itself


def probe_failure(directory: Path) -> str:
    """Why the probe could not do its work, in a line: what was to be changed may have stayed as it was; or empty."""
    for path in sorted(directory.glob("probe-error-*.txt")):
        lines = path.read_text(errors="replace").strip().splitlines()
        if lines:
            return f"the probe failed: {lines[-1]}"
    return ""


def read_findings(directory: Path) -> Findings:
    """Read the files of `directory`; damaged ones (the process was killed while writing) become problems."""
    problems: list[str] = []
    hellos = [from_data(data, Process) for data in _load(directory, "hello-*.json", problems)]
    goodbyes = list(_load(directory, "goodbye-*.json", problems))
    first = next(iter(goodbyes), {})
    problems += [path.read_text(errors="replace") for path in sorted(directory.glob("probe-error-*.txt"))]
    stacks = [path.read_text(errors="replace") for path in sorted(directory.glob("stack-*.txt"))]
    return Findings(
        processes=tuple(sorted(hellos, key=lambda process: process.time)),
        exceptions=tuple(sorted(_exceptions(directory, problems), key=lambda uncaught: uncaught.time)),
        stacks=tuple(stack for stack in stacks if stack.strip()),
        config=first.get("config", {}),
        threads=first.get("threads"),
        compiled=max((_compiled(data) for data in _load(directory, "measured-*.json", problems)), key=len, default=()),
        peak_memory=max((data.get("peak_memory") or 0 for data in goodbyes), default=0),
        modules=tuple(sorted({path for goodbye in goodbyes for path in goodbye.get("modules", {}).values()})),
        problems=tuple(problems),
    )


def _compiled(data: dict[str, Any]) -> tuple[CompiledCall, ...]:
    return from_data(data["compiled"], tuple[CompiledCall, ...])


def _exceptions(directory: Path, problems: list[str]) -> Iterator[Uncaught]:
    for pattern in ("exception-*.json", "thread-exception-*.json"):
        for path in sorted(directory.glob(pattern)):
            for data in _parse([path], problems):
                links = tuple(from_data(link, ExceptionLink) for link in data["exceptions"])
                told = data.get("tolerance")
                tolerance = from_data(told, tuple[float, float]) if told else None
                yield Uncaught(int(path.stem.rsplit("-", 1)[1]), data["time"], links, tolerance)


def _load(directory: Path, pattern: str, problems: list[str]) -> Iterator[dict[str, Any]]:
    return _parse(sorted(directory.glob(pattern)), problems)


def _parse(paths: Sequence[Path], problems: list[str]) -> Iterator[dict[str, Any]]:
    for path in paths:
        try:
            yield loads(path.read_bytes())
        except ValueError as error:
            problems.append(f"{path.name}: {error}")
