"""Read the graphs that the probe recorded, and the events that show which graph failed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from repro_kit.model.failure.failure import ExceptionLink
from repro_kit.probe.repro_probe.protocol.entries import ENTRIES
from repro_kit.probe.repro_probe.protocol.findings import EVENTS, finding
from repro_kit.probe.repro_probe.protocol.graph_data import GRAPH, CompileSettings, EventName
from repro_kit.program.reading.graph_record import GraphRecord, InputRecord
from repro_kit.runner.probe_files import process_of, read_files, read_lines


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
