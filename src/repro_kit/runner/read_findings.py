"""Read the files that the probe wrote during a run as typed data; what is damaged is left out and named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from repro_kit.errors import StageError
from repro_kit.explain.extra_run import MeasuredCall
from repro_kit.failure.compiled_calls import CompiledCall
from repro_kit.failure.failure import ExceptionLink, Frame
from repro_kit.graph.reading.graph_record import GraphRecord, InputRecord
from repro_kit.probe.repro_probe.protocol.findings import (
    APPLIED,
    COMPILED,
    EVENTS,
    EXCEPTION,
    GOODBYE,
    HELLO,
    HIDDEN_WRITES,
    LOADED,
    MEASURED,
    PROBE_ERROR,
    RANK,
    STACK,
    THREAD_EXCEPTION,
    TIMELINE,
    finding,
)
from repro_kit.probe.repro_probe.protocol.graph_data import GRAPH, CompileSettings, EventName
from repro_kit.probe.repro_probe.protocol.queries import Application
from repro_kit.probe.repro_probe.protocol.recipe_data import ENTRIES
from repro_kit.serialize import from_data, loads
from repro_kit.trace.rank_history import RankState

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
    hidden_writes: tuple[str, ...] = ()  # forms of saved tensors that the program writes to, unseen by autograd
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
        hidden_writes=tuple(
            line
            for path in sorted(directory.glob(finding(HIDDEN_WRITES, "*", "jsonl")))
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
        ),
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


@dataclass(frozen=True)
class RecordedEvent:
    """One line of the probe's events: something that happened to a graph."""

    event: EventName
    graph: int | None  # None: the event is a call of torch.compile
    time: float
    settings: CompileSettings | None = None  # of a call of torch.compile
    exceptions: tuple[ExceptionLink, ...] = ()
    call: int = 0
    inputs: tuple[InputRecord, ...] = ()
    uniform: bool = False  # of a backward: every element got the same gradient, as after sum() or mean()
    problem: str | None = None


@dataclass(frozen=True)
class Recorded:
    """The graphs of one process, in the order in which they reached the backend, and its events."""

    pid: int
    graphs: tuple[GraphRecord, ...]
    events: tuple[RecordedEvent, ...]
    problems: tuple[str, ...] = ()  # files and lines that are damaged, and were left out

    def graph(self, number: int) -> GraphRecord | None:
        """Return the graph with this number; None when the probe could not write it."""
        return next((graph for graph in self.graphs if graph.number == number), None)

    def suspects(self) -> list[int]:
        """Return the numbers of graphs that may be at fault.

        First the graphs that failed, then those that began a step and did not end it, then those that ran a backward,
        the latest first.
        """
        events = [event for event in self.events if event.graph is not None]
        failed = [event.graph for event in events if event.event in ("compile-fail", "call-fail")]
        unfinished: dict[tuple[str, int | None, int], int | None] = {}
        for event in events:
            step, _, stage = event.event.rpartition("-")
            if stage == "begin" and step != "backward":
                unfinished[step, event.graph, event.call] = event.graph
            elif stage in ("end", "fail"):
                unfinished.pop((step, event.graph, event.call), None)
        backward = [event.graph for event in events if event.event == "backward-begin"]
        numbers = dict.fromkeys([*failed, *unfinished.values(), *reversed(backward)])
        return [number for number in numbers if number is not None]

    def calls_of(self, numbers: Iterable[int]) -> list[tuple[int, tuple[InputRecord, ...]]]:
        """Return (graph, inputs) of the recorded calls of the graphs `numbers`, in the order of the calls."""
        wanted = set(numbers)
        calls: list[tuple[int, tuple[InputRecord, ...]]] = []
        for event in self.events:
            if event.event != "call-begin" or event.graph is None or event.graph not in wanted or event.problem:
                continue
            graph = self.graph(event.graph)
            if graph is not None:
                calls.append((event.graph, event.inputs or graph.inputs))
        return calls

    def compile_settings(self) -> CompileSettings | None:
        """Return the arguments of the first call of `torch.compile`; None when there was no call.

        Where the last call is one of torch.export or AOTInductor, it is that one, since each builds on those before.
        """
        calls = [event.settings for event in self.events if event.event == "compile-call" and event.settings]
        if not calls:
            return None
        return calls[-1] if calls[-1]["backend"] in ENTRIES else calls[0]

    def backward_of(self, number: int) -> RecordedEvent | None:
        """Return the first backward through the graph `number`; None when there was none."""
        return next((event for event in self.events if event.event == "backward-begin" and event.graph == number), None)


def read_recorded(directory: Path) -> list[Recorded]:
    """Return the recordings of all processes in `directory`, the one with most graphs first."""
    recorded = [_read_process(path) for path in sorted(directory.glob(finding(EVENTS, "*", "jsonl")))]
    return sorted(recorded, key=lambda process: -len(process.graphs))


def _read_process(path: Path) -> Recorded:
    """Return the recording of the process whose events are at `path`."""
    pid = process_of(path)
    problems: list[str] = []
    events = read_lines(path, RecordedEvent, problems)
    graphs = [graph for _, graph in read_files(path.parent, f"{GRAPH}-*", GraphRecord, problems, pid)]
    graphs.sort(key=lambda graph: graph.number)
    return Recorded(pid, tuple(graphs), tuple(events), tuple(problems))


@dataclass(frozen=True)
class _ProcessTimeline:
    rank: str | None
    started: float
    calls: tuple[MeasuredCall, ...] = ()
    left_out: int = 0

    @property
    def rank_number(self) -> int:
        """The rank as a number; 0 if RANK is not set or is no number."""
        return int(self.rank) if self.rank and self.rank.isdecimal() else 0


def read_calls(directory: Path) -> tuple[MeasuredCall, ...]:
    """Return the timed calls, ordered by rank and by start of their process. Raises StageError for a damaged file."""
    problems: list[str] = []
    processes = [process for _, process in read_files(directory, TIMELINE, _ProcessTimeline, problems)]
    if problems:
        raise StageError(f"The probe's timings in {directory} are damaged ({problems[0]}); run the command again.")
    processes.sort(key=lambda process: (process.rank_number, process.started))
    return tuple(call for process in processes for call in process.calls)
