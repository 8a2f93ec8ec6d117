"""Read what the capture probe recorded: graphs, and the events that tell which one is to blame."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from repro_kit.model.failure.failure import ExceptionLink
from repro_kit.probe.repro_probe.protocol.findings import EVENTS, finding
from repro_kit.probe.repro_probe.protocol.graph_data import GRAPH, CompileSettings, EventName
from repro_kit.program.graph_record import GraphRecord, InputRecord
from repro_kit.runner.probe_files import process_of, read_files, read_lines


@dataclass(frozen=True)
class RecordedEvent:
    """One line of the probe's events: what happened to which graph."""

    event: EventName
    graph: int | None  # None: of no graph, a call of torch.compile
    time: float
    settings: CompileSettings | None = None  # of a call of torch.compile
    exceptions: tuple[ExceptionLink, ...] = ()
    call: int = 0
    inputs: tuple[InputRecord, ...] = ()
    uniform: bool = False  # backward: every element got the same gradient, as after sum() or mean()
    problem: str | None = None


@dataclass(frozen=True)
class Recorded:
    """The graphs of one process, in the order in which they reached the backend, and its events."""

    pid: int
    graphs: tuple[GraphRecord, ...]
    events: tuple[RecordedEvent, ...]
    problems: tuple[str, ...] = ()  # what is damaged, and left out

    def graph(self, number: int) -> GraphRecord | None:
        """The graph with this number; None when it could not be written."""
        return next((graph for graph in self.graphs if graph.number == number), None)

    def suspects(self) -> list[int]:
        """Numbers of graphs that an event points at: failed, or begun and not ended, or last to run backward."""
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
        """(graph, inputs) of the recorded calls of these graphs, in the order in which they were made."""
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
        """Arguments of the first `torch.compile`; None when there was none."""
        return next((event.settings for event in self.events if event.event == "compile-call"), None)

    def backward_of(self, number: int) -> RecordedEvent | None:
        """The first backward through this graph."""
        return next((event for event in self.events if event.event == "backward-begin" and event.graph == number), None)


def read_recorded(directory: Path) -> list[Recorded]:
    """The recordings of all processes below `directory`, most graphs first."""
    recorded = [_read_process(path) for path in sorted(directory.glob(finding(EVENTS, "*", "jsonl")))]
    return sorted(recorded, key=lambda process: -len(process.graphs))


def _read_process(path: Path) -> Recorded:
    """What the process recorded whose events are at `path`."""
    pid = process_of(path)
    problems: list[str] = []
    events = read_lines(path, RecordedEvent, problems)
    graphs = [graph for _, graph in read_files(path.parent, f"{GRAPH}-*", GraphRecord, problems, pid)]
    graphs.sort(key=lambda graph: graph.number)
    return Recorded(pid, tuple(graphs), tuple(events), tuple(problems))
