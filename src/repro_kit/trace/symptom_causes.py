"""What causes the recompiles or the graph breaks in a trace, in a few plain words each."""

from __future__ import annotations

from pathlib import Path

from repro_kit.model.failure.failure import Kind
from repro_kit.trace.break_text import parse
from repro_kit.trace.guard_text import parse_guard
from repro_kit.trace.insights.recompiles import reasons_of
from repro_kit.trace.reader import read
from repro_kit.trace.record import Record


def causes(kind: Kind, directory: Path) -> frozenset[str]:
    """The kinds of the guards that failed, or of the graph breaks; empty for other symptoms, and without a trace."""
    if kind not in (Kind.RECOMPILES, Kind.GRAPH_BREAKS) or not directory.is_dir():
        return frozenset()
    return frozenset(cause for record in read(directory) for cause in _of_record(kind, record))


def _of_record(kind: Kind, record: Record) -> list[str]:
    if kind is Kind.RECOMPILES and record.name == "recompile_reasons":
        return [parse_guard(reason.partition(": ")[2] or reason).kind for reason in reasons_of(record)]
    if kind is Kind.GRAPH_BREAKS and record.name == "dynamo_graph_break_reason" and record.payload:
        return [parse(record.payload).kind]
    return []
