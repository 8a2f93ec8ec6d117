"""The facts that the pipeline needs from a trace, gathered in one pass."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from repro_kit.failure.failure import Frame, Measured
from repro_kit.trace.compiles import Compile, CompileFailure, Compiles
from repro_kit.trace.dynamo_text import parse
from repro_kit.trace.reader import Problems, read
from repro_kit.trace.record import Record, ask
from repro_kit.trace.runnables import Runnable, Runnables

_AT_THE_LIMIT = re.compile(r"(?:recompile|cache_size)_?\s?limit", re.IGNORECASE)
_MOST_PLACES = 3  # places that are named


@dataclass(frozen=True)
class Counts:
    """The counts of the process with the most; each says where it comes from."""

    recompiles: Measured
    graph_breaks: Measured
    compile_time: Measured  # seconds


@dataclass
class _Process:
    recompiled: dict[tuple[int, str], dict[str, Any]] = field(default_factory=dict)  # metrics by epoch and compile id
    breaks: dict[Hashable, Frame | None] = field(default_factory=dict)  # identity of the break -> place
    spans: list[tuple[float, float, str]] = field(default_factory=list)  # begin and end in seconds; function


@dataclass
class Counting:
    """Counts as records pass."""

    processes: dict[str, _Process] = field(default_factory=dict)

    def see(self, record: Record) -> None:
        """Note a finished compile or a graph break."""
        process = self.processes.setdefault(record.file, _Process())
        if record.event.endswith("compilation_metrics") and isinstance(record.data, dict):
            metrics = record.data
            process.spans += _span(metrics)
            compile_id = str(metrics.get("compile_id") or record.compile_id or "")
            if record.event == "compilation_metrics" and _is_recompile(compile_id, metrics):
                process.recompiled[record.epoch, compile_id] = metrics
        elif record.name == "dynamo_graph_break_reason" and record.payload:
            graph_break = parse(record.payload)
            # Every recompile of the frame meets the same break again, and so does the record that the frame is skipped.
            process.breaks.setdefault((graph_break.kind, graph_break.where, graph_break.stack), graph_break.where)

    def counts(self) -> Counts:
        """The counts, after all records."""
        processes = list(self.processes.values()) or [_Process()]
        return Counts(
            max((_recompiles(process) for process in processes), key=lambda measured: measured.value),
            max((_breaks(process) for process in processes), key=lambda measured: measured.value),
            max((_time(process) for process in processes), key=lambda measured: measured.value),
        )


def counts(records: Iterable[Record]) -> Counts:
    """The counts of a trace."""
    return ask(Counting(), records).counts()


def _is_recompile(compile_id: str, metrics: dict[str, Any]) -> bool:
    """Whether a frame was compiled again; hitting the recompile limit is not a compile."""
    number = compile_id.rpartition("/")[2]
    again = number.isdigit() and int(number) > 0
    return again and not _AT_THE_LIMIT.search(f"{metrics.get('fail_type')} {metrics.get('fail_reason')}")


def _span(metrics: dict[str, Any]) -> list[tuple[float, float, str]]:
    start, end = metrics.get("start_time_us"), metrics.get("end_time_us")
    if not isinstance(start, int) or not isinstance(end, int):
        return []
    return [(start / 1e6, end / 1e6, _place(metrics))]


def _place(metrics: dict[str, Any]) -> str:
    if not metrics.get("co_name") or not metrics.get("co_filename"):
        return str(metrics.get("co_name") or "")
    return f"{metrics['co_name']} at {PurePath(str(metrics.get('co_filename'))).name}:{metrics.get('co_firstlineno')}"


def _recompiles(process: _Process) -> Measured:
    places = Counter(_place(metrics) for metrics in process.recompiled.values())
    last: dict[str, str] = {}
    for metrics in process.recompiled.values():
        reason = str(metrics.get("recompile_reason") or "").partition(": ")[2]
        guard = " ".join(reason.partition(" # ")[0].split())  # torch names the line of the guard behind it
        last[_place(metrics)] = f" ({guard[:80]})" if guard else ""
    words = [f"{function} {count}×{last[function]}" for function, count in places.most_common(_MOST_PLACES)]
    return Measured.exact(len(process.recompiled), _listed(words, len(places)))


def _breaks(process: _Process) -> Measured:
    places = Counter(f"{PurePath(frame.file).name}:{frame.line}" for frame in process.breaks.values() if frame)
    words = [
        source_line if count == 1 else f"{source_line} {count}×"
        for source_line, count in places.most_common(_MOST_PLACES)
    ]
    return Measured.exact(len(process.breaks), _listed(words, len(places)))


def _listed(words: list[str], count: int) -> str:
    return ", ".join(words) + (f" and {count - len(words)} more places" if count > len(words) else "")


def _time(process: _Process) -> Measured:
    """The time covered by compiles. A backward's compile may lie within another one."""
    total, until = 0.0, 0.0
    by_place: Counter[str] = Counter()
    for start, end, function in sorted(process.spans):
        own = max(0.0, end - max(start, until))
        total, until = total + own, max(until, end)
        by_place[function] += own  # type: ignore[assignment]
    words = [f"{function} {seconds:.1f} s" for function, seconds in by_place.most_common(_MOST_PLACES) if function]
    return Measured.exact(round(total, 3), _listed(words, len([function for function in by_place if function])))


@dataclass
class Symbols:
    """Counts the created symbols in `made`, including those that were specialized later."""

    made: int = 0

    def see(self, record: Record) -> None:
        """Count the creation of a symbol."""
        if record.event in ("create_symbol", "create_unbacked_symbol"):
            self.made += 1


@dataclass(frozen=True)
class OpenStep:
    """The steps in progress when the trace ended, the innermost last, as torch's timers name them."""

    compile_id: str | None
    rank: int | None
    steps: tuple[str, ...]
    after: str = ""  # last record of that compile

    def __str__(self) -> str:
        where = f" of graph {self.compile_id}" if self.compile_id else ""
        rank = f" on rank {self.rank}" if self.rank is not None else ""
        after = f", after {self.after}" if self.after else ""
        return f"{self.steps[-1]}{where}{rank}{after}"


@dataclass
class OpenSteps:
    """Follows the begin and end events (`chromium_event`) of each thread; without them, unfinished frames."""

    stacks: dict[tuple[str, int, int], list[tuple[str, str | None]]] = field(default_factory=dict)
    frames: dict[tuple[str, str], int | None] = field(default_factory=dict)
    ranks: dict[str, int | None] = field(default_factory=dict)
    last: dict[tuple[str, str | None], str] = field(default_factory=dict)
    newest: dict[tuple[str, int, int], str] = field(default_factory=dict)

    def see(self, record: Record) -> None:
        """Use the begin or end of a step, or a record that shows the progress of a compile."""
        self.ranks.setdefault(record.file, record.rank)
        if record.event == "chromium_event":
            self._event(record)
            return
        if record.compile_id is None:
            return
        frame = (record.file, record.compile_id)
        if record.event == "dynamo_start":
            self.frames[frame] = record.rank
        elif record.event == "compilation_metrics" or record.name == "dynamo_error":
            self.frames.pop(frame, None)
        if record.event in ("artifact", "dynamo_output_graph", "inductor_output_code") or "graph" in record.event:
            self.last[frame] = record.name

    def _event(self, record: Record) -> None:
        event = record.json()
        if not isinstance(event, dict) or event.get("ph") not in ("B", "E"):
            return
        tid = event.get("tid")
        thread = (record.file, record.pid, tid if isinstance(tid, int) else 0)
        stack = self.stacks.setdefault(thread, [])
        name = str(event.get("name"))
        if event["ph"] == "B":
            stack.append((name, record.compile_id))
            self.newest[thread] = record.time
        elif any(name == begun for begun, _ in stack):
            while stack.pop()[0] != name:
                pass

    def by_process(self) -> dict[int, OpenStep]:
        """The open step of each process that has one."""
        steps = {pid: self.open(pid) for _, pid, _ in self.stacks}
        return {pid: step for pid, step in steps.items() if step is not None}

    def open(self, pid: int | None = None) -> OpenStep | None:
        """The open step that began last, of all processes or of one."""
        begun = {thread: stack for thread, stack in self.stacks.items() if stack and pid in (None, thread[1])}
        if begun:
            thread = max(begun, key=lambda key: self.newest[key])
            stack = begun[thread]
            compile_id = next((stack_id for _, stack_id in reversed(stack) if stack_id), None)
            after = self.last.get((thread[0], compile_id), "")
            return OpenStep(compile_id, self.ranks.get(thread[0]), tuple(name for name, _ in stack), after)
        if self.frames and not self.stacks:
            (file, compile_id), rank = list(self.frames.items())[-1]
            return OpenStep(compile_id, rank, ("dynamo",), self.last.get((file, compile_id), ""))
        return None


@dataclass(frozen=True)
class TraceSummary:
    """The compiles in order, the failures, the graphs as scripts, and the step that was left open."""

    compiles: tuple[Compile, ...] = ()
    failures: tuple[CompileFailure, ...] = ()
    runnables: tuple[Runnable, ...] = ()
    open_step: str | None = None
    open_steps: dict[int, str] = field(default_factory=dict)  # by process
    problems: Problems = field(default_factory=Problems)
    counts: Counts = field(default_factory=lambda: Counting().counts())
    symbols: int = 0  # number of symbolic sizes

    @property
    def static(self) -> bool:
        """Whether there were compiles, but no symbolic sizes."""
        return bool(self.compiles) and not self.symbols

    @property
    def compile_ids(self) -> tuple[str, ...]:
        """The compile ids in order; ranks and forked processes may repeat an id."""
        return tuple(compile_.compile_id for compile_ in self.compiles)


def summarise(path: str | Path) -> TraceSummary:
    """The summary of the trace at `path` (a log, or a directory of logs); empty if there is none."""
    if not Path(path).exists():
        return TraceSummary()
    compiles, runnables, steps, counting, symbols = Compiles(), Runnables(), OpenSteps(), Counting(), Symbols()
    reader = read(path)
    for record in reader:
        for insight in (compiles, runnables, steps, counting, symbols):
            insight.see(record)
    step = steps.open()
    return TraceSummary(
        tuple(compiles.all()),
        tuple(compiles.failures()),
        tuple(runnables.scripts),
        str(step) if step else None,
        {pid: str(of_process) for pid, of_process in steps.by_process().items()},
        reader.problems,
        counting.counts(),
        symbols.made,
    )
