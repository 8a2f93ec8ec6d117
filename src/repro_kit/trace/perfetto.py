"""Export the phases of all compiles as a Chrome trace, for ui.perfetto.dev and chrome://tracing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from repro_kit.trace.record import Record

#: Characters of an argument. Torch attaches long settings to events, which a viewer does not need.
_LONGEST = 1000


@dataclass
class _Processes:
    """A process number for every log."""

    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, record: Record) -> tuple[int, bool]:
        new = record.file not in self.numbers
        return self.numbers.setdefault(record.file, len(self.numbers)), new


def chrome_trace(records: Iterable[Record]) -> Iterator[bytes]:
    """The JSON of a Chrome trace in pieces: each log is a process, each phase of a compile a span."""
    processes = _Processes()
    yield b'{"displayTimeUnit":"ms","traceEvents":['
    comma = b""
    for record in records:
        if record.event != "chromium_event":
            continue
        event = record.json()
        if not isinstance(event, dict) or "ph" not in event:
            continue
        pid, new = processes.number(record)
        if new:
            yield comma + orjson.dumps(_named(pid, record))
            comma = b",\n"
        yield comma + orjson.dumps(_lean(event, pid))
    yield b"]}\n"


def _named(pid: int, record: Record) -> dict[str, Any]:
    rank = f"rank {record.rank}, " if record.rank is not None else ""
    return {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": f"{rank}process {record.pid}"}}


def _lean(event: dict[str, Any], pid: int) -> dict[str, Any]:
    args = event.get("args")
    short = {key: value for key, value in args.items() if len(str(value)) <= _LONGEST} if isinstance(args, dict) else {}
    return {**event, "pid": pid, "args": short}
