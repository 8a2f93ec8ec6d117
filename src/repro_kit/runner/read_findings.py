"""Read the files that the probe wrote during a run as typed data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, cast

from repro_kit.model.failure.failure import ExceptionLink, Frame
from repro_kit.model.measure.timing import CompiledCall
from repro_kit.model.rank_history import RankState
from repro_kit.probe.repro_probe.protocol.findings import (
    APPLIED,
    COMPILED,
    EVENTS,
    EXCEPTION,
    GOODBYE,
    HELLO,
    LOADED,
    MEASURED,
    PROBE_ERROR,
    RANK,
    STACK,
    THREAD_EXCEPTION,
    finding,
)
from repro_kit.probe.repro_probe.protocol.queries import Application
from repro_kit.runner.probe_files import process_of, read_files, read_lines


@dataclass(frozen=True)
class TorchProcess:
    """A process of the run that imported torch."""

    pid: int
    executable: str
    python: str
    torch: str
    time: float  # seconds since the epoch
    rank: str | None = None


@dataclass(frozen=True)
class UncaughtException:
    """An exception that ended a process or a thread."""

    pid: int
    time: float
    links: tuple[ExceptionLink, ...]
    tolerance: tuple[float, float] | None = None  # (rtol, atol) of the user's check, if that raised the exception
    machine: bool = False  # the exception is an error of the operating system, or was caused by one
    compares: bool = False  # the condition that raised the exception compares tensors
    clock: bool = False  # the condition that raised the exception reads a clock
    interrupted: tuple[Frame, ...] = ()  # what the script's own alarm interrupted, whose handler raised the exception


@dataclass(frozen=True)
class Findings:
    """Everything that the probe wrote in a run. Each tuple is in order of time."""

    processes: tuple[TorchProcess, ...] = ()
    exceptions: tuple[UncaughtException, ...] = ()
    stacks: dict[int, str] = field(default_factory=dict)  # faulthandler's text, by the process that crashed or hung
    #: Settings that differ from their defaults, in the first process that compiled, else that ended normally.
    config: dict[str, Any] = field(default_factory=dict)
    threads: int | None = None
    modules: tuple[str, ...] = ()  # files of the user's own modules
    module_files: dict[str, str] = field(default_factory=dict)  # the same, by the name that they were imported with
    compiled: tuple[CompiledCall, ...] = ()  # the measurements of the process that made most of them
    peak_memory: int = 0  # bytes, of the process that used most
    graphs_made: int = 0  # graphs that were compiled in a run that should compile nothing
    loaded: bool = False  # such a run ran code that an earlier run had compiled
    problems: tuple[str, ...] = ()  # failures of the probe, and damaged files
    ranks: tuple[RankState, ...] = ()  # of a distributed run
    ended: frozenset[int] = frozenset()  # the processes that ended normally, or by an exception


def probe_failure(directory: Path) -> str:
    """Say in one line why the probe failed, or return "". A probe that failed may not have made the ordered changes."""
    for path in sorted(directory.glob(finding(PROBE_ERROR, "*", "txt"))):
        lines = path.read_text(errors="replace").strip().splitlines()
        if lines:
            return f"the probe failed: {lines[-1]}"
    return ""


@dataclass(frozen=True)
class _Goodbye:
    """The settings and the peak memory of a process that ended normally."""

    config: dict[str, Any] = field(default_factory=dict)
    threads: int | None = None
    modules: dict[str, str] = field(default_factory=dict)
    peak_memory: int | None = 0


@dataclass(frozen=True)
class _Measured:
    """The measurements of one process."""

    compiled: tuple[CompiledCall, ...]


@dataclass(frozen=True)
class _Raised:
    """An `UncaughtException` as its process writes it; the fields are in the same order."""

    time: float
    exceptions: tuple[ExceptionLink, ...]
    tolerance: tuple[float, float] | None = None
    machine: bool = False
    compares: bool = False
    clock: bool = False
    interrupted: tuple[Frame, ...] = ()


def read_findings(directory: Path) -> Findings:
    """Read the files of `directory`. A file that a killed process left damaged becomes a problem."""
    problems: list[str] = []
    hellos = [process for _, process in read_files(directory, HELLO, TorchProcess, problems)]
    ended = {process_of(path): process for path, process in read_files(directory, GOODBYE, _Goodbye, problems)}
    measured = [process.compiled for _, process in read_files(directory, MEASURED, _Measured, problems)]
    settings = _settings(directory, hellos, ended)
    problems += [path.read_text(errors="replace") for path in sorted(directory.glob(finding(PROBE_ERROR, "*", "txt")))]
    stacks = {
        process_of(path): path.read_text(errors="replace")
        for path in sorted(directory.glob(finding(STACK, "*", "txt")))
    }
    return Findings(
        processes=tuple(sorted(hellos, key=lambda process: process.time)),
        exceptions=tuple(sorted(_exceptions(directory, problems), key=lambda uncaught: uncaught.time)),
        stacks={pid: stack for pid, stack in stacks.items() if stack.strip()},
        config=settings.config,
        threads=settings.threads,
        compiled=max(measured, key=len, default=()),
        peak_memory=max((process.peak_memory or 0 for process in ended.values()), default=0),
        modules=tuple(sorted({path for process in ended.values() for path in process.modules.values()})),
        module_files={name: path for process in ended.values() for name, path in process.modules.items()},
        graphs_made=sum(
            len(path.read_bytes().splitlines()) for path in directory.glob(finding(COMPILED, "*", "jsonl"))
        ),
        loaded=any(directory.glob(finding(LOADED, "*", "jsonl"))),
        problems=tuple(problems),
        ranks=read_ranks(directory, problems),
        ended=frozenset(process_of(path) for path in directory.glob(finding(GOODBYE, "*"))),
    )


def _settings(directory: Path, hellos: Sequence[TorchProcess], ended: Mapping[int, _Goodbye]) -> _Goodbye:
    """The settings of the program: a launcher starts first and compiles nothing, so those who compile come first."""
    pids = [process.pid for process in sorted(hellos, key=lambda process: process.time) if process.pid in ended]
    pids.sort(key=lambda pid: not (directory / finding(EVENTS, pid, "jsonl")).exists())
    return ended[pids[0]] if pids else next(iter(ended.values()), _Goodbye())


def read_ranks(directory: Path, problems: list[str]) -> tuple[RankState, ...]:
    """Return the last state of each rank of a distributed run, in order. What is damaged is added to `problems`."""
    states = [replace(state, pid=process_of(path)) for path, state in read_files(directory, RANK, RankState, problems)]
    return tuple(sorted(states, key=lambda state: (state.rank, state.time)))


def _exceptions(directory: Path, problems: list[str]) -> Iterator[UncaughtException]:
    for name in (EXCEPTION, THREAD_EXCEPTION):
        for path, raised in read_files(directory, name, _Raised, problems):
            yield UncaughtException(process_of(path), *(getattr(raised, each.name) for each in fields(raised)))


_APPLICATION = cast(type[Application], tuple[str, str, str, str])


def read_applied(directory: Path) -> tuple[list[Application], list[str]]:
    """Return the applications of subsystems in the process that has most of them, and the damaged lines."""
    problems: list[str] = []
    paths = sorted(directory.glob(finding(APPLIED, "*", "jsonl")))
    applied: list[list[Application]] = [read_lines(path, _APPLICATION, problems) for path in paths]
    return max(applied, key=len, default=[]), problems
