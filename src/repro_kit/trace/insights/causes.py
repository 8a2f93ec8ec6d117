"""What causes a count of recompiles or of graph breaks, and an exception at a recompile."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from repro_kit.failure.failure import Failure
from repro_kit.failure.kinds import Kind
from repro_kit.failure.messages import AT_THE_LIMIT
from repro_kit.failure.tracebacks import short
from repro_kit.trace.dynamo_text import GuardText, parse, parse_guard
from repro_kit.trace.insights.recompiles import reasons_of
from repro_kit.trace.reader import read

#: A guard in a list of those that failed, with the compile that has it: in torch's messages, and in its trace.
_LISTED = re.compile(r"^\s*- (?:!\d+/)?\d+/\d+: (?P<guard>.+)$", re.MULTILINE)
_AGAINST = re.compile(r"^(?:!\d+/)?\d+/\d+: ")
_FAILED = "triggered by the following guard failure(s):"


def causes(kind: Kind, directory: Path) -> frozenset[str]:
    """The kinds of the guards that failed, or of the graph breaks; empty for other symptoms, and without a trace."""
    if kind is Kind.RECOMPILES:
        return frozenset(guard.kind for _, guard in _guards(directory))
    if kind is Kind.GRAPH_BREAKS and directory.is_dir():
        records = (record for record in read(directory) if record.name == "dynamo_graph_break_reason")
        return frozenset(parse(record.payload).kind for record in records if record.payload)
    return frozenset()


def kept_causes(failure: Failure, directory: Path) -> frozenset[str]:
    """The causes that a smaller program must share: kinds of graph breaks, or forms of the guards that failed.

    Of an exception at a recompile these are the guards that it names or, at the recompile limit, those that failed for
    the compile that was refused. `directory` holds the trace of the run.
    """
    named = [found for link in failure.exceptions for found in _named_in(link.message)]
    if named:
        return _forms(map(parse_guard, named))
    if failure.kind is Kind.RECOMPILES:
        return _forms(guard for _, guard in _guards(directory))
    if any(short(link.type) == AT_THE_LIMIT for link in failure.exceptions):
        guards = _guards(directory)
        refused = failure.compile_id or (guards[-1][0] if guards else None)
        return _forms(guard for compile_id, guard in guards if compile_id == refused)
    return causes(failure.kind, directory)


def _forms(guards: Iterable[GuardText]) -> frozenset[str]:
    return frozenset(guard.form for guard in guards)


def _named_in(message: str) -> list[str]:
    return [found["guard"] for found in _LISTED.finditer(message.partition(_FAILED)[2])]


def _guards(directory: Path) -> list[tuple[str | None, GuardText]]:
    """The guards that failed, in order, each with the compile that was begun since; none without a trace."""
    if not directory.is_dir():
        return []
    return [
        (record.compile_id, parse_guard(_AGAINST.sub("", reason)))
        for record in read(directory)
        if record.name == "recompile_reasons"
        for reason in reasons_of(record)
    ]
