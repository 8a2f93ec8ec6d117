"""Count recompiles, graph breaks and compile time in a trace."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from repro_kit.model.failure.failure import Frame, Measured
from repro_kit.trace.break_text import parse
from repro_kit.trace.insight import ask
from repro_kit.trace.record import Record

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
    recompiled: dict[str, dict[str, Any]] = field(default_factory=dict)  # compile id -> its metrics
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
                process.recompiled[compile_id] = metrics
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
