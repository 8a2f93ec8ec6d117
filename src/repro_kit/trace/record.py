"""One record of torch's structured trace, typed; and an insight, a question that one pass over the records answers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import orjson

from repro_kit.failure.failure import Frame

_FRAME = re.compile(r"(?:!\d+/)?(\d+)/\d+(?:_\d+)?")

#: Keys of a record's JSON that are context; exactly one further key names the event.
CONTEXT = frozenset(
    ("rank", "compiled_autograd_id", "frame_id", "frame_compile_id", "attempt", "has_payload", "stack", "process")
)


@dataclass(frozen=True)
class Record:
    """A record: its event and the event's data, its context, its payload.

    `compile_id` is torch's text form without the attempt: ``0/1``, ``!2/0/1`` under compiled autograd, or None.
    """

    event: str  # "dynamo_start", "artifact", "compilation_metrics", …
    data: Any  # the event's own JSON
    file: str  # name of the log
    time: str  # "1120 17:29:56.314000": month and day, no year, no zone
    pid: int
    compile_id: str | None = None
    attempt: int = 0
    rank: int | None = None
    payload: str | None = None
    intact: bool = True  # the payload agrees with its checksum
    stack: tuple[Frame, ...] = ()  # outermost first
    epoch: int = 0  # which run of compile ids in its log, see `Epochs`
    strings: Mapping[int, str] = field(default_factory=dict, repr=False, compare=False)  # the log's file names

    @property
    def fields(self) -> dict[str, Any]:
        """The event's data if it is an object, as in all known events; else empty."""
        return self.data if isinstance(self.data, dict) else {}

    def text(self, key: str) -> str:
        """A string in the event's data; empty if there is none."""
        value = self.fields.get(key)
        return value if isinstance(value, str) else ""

    def number(self, key: str) -> float:
        """A number in the event's data; 0 if there is none, or if it is out of range."""
        value = self.fields.get(key)
        return value if isinstance(value, int | float) and abs(value) < 2**53 else 0

    def frames(self, key: str) -> tuple[Frame, ...]:
        """A stack within the event's data (``user_stack``), outermost first."""
        return frames_of(self.fields.get(key), self.strings)

    @property
    def name(self) -> str:
        """The name of an artifact (``fx_graph_runnable``), else the event."""
        return self.text("name") if self.event == "artifact" else self.event

    def json(self) -> Any:
        """The payload as JSON; None if it is not JSON."""
        try:
            return orjson.loads(self.payload or "")
        except orjson.JSONDecodeError:
            return None


def frames_of(stack: Any, strings: Mapping[int, str]) -> tuple[Frame, ...]:
    """A stack of the trace with its file names filled in; an unknown name is ``?``."""
    return tuple(
        Frame(
            strings.get(_whole(frame.get("filename")), "?"),
            max(0, _whole(frame.get("line"))),
            str(frame.get("name", "")),
            str(frame.get("loc") or ""),
        )
        for frame in (stack if isinstance(stack, list) else ())
        if isinstance(frame, dict)
    )


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else -1


def frame_of(compile_id: str) -> int | None:
    """The number of the frame in a compile id such as ``!0/2/1_1``; the graphs of one function share a frame."""
    match = _FRAME.fullmatch(compile_id)
    return int(match[1]) if match else None


def compile_id_of(data: dict[str, Any]) -> str | None:
    """The compile id in a record's context, as ``torch._guards.CompileId`` writes it."""
    autograd, frame, compiled = (data.get(key) for key in ("compiled_autograd_id", "frame_id", "frame_compile_id"))
    parts = [f"!{autograd}"] if autograd is not None else []
    if frame is not None and compiled is not None:
        parts.append(f"{frame}/{compiled}")
    return "/".join(parts) or None


_RANK = re.compile(r"(?:^|[^a-z])rank[_-]?(\d{1,9})(?!\d)", re.IGNORECASE)
_BIGGEST_PID = 1 << 22  # a larger number is a thread's, as torch before 2.5 writes


def rank_named(file: str) -> int | None:
    """The rank in the name of a log: 3 of ``dedicated_log_torch_trace_rank_3_x.log``."""
    found = _RANK.search(file)
    return int(found[1]) if found else None


@dataclass
class _Run:
    """One run of compile ids: what was begun in it."""

    epoch: int
    begun: set[tuple[str, str]] = field(default_factory=set)


@dataclass
class Epochs:
    """Numbers the runs of compile ids in each log.

    Compile ids begin anew after ``torch._dynamo.reset()``, in a forked process, and where a file holds a second log.
    """

    runs: dict[tuple[str, int], _Run] = field(default_factory=dict)  # the newest of each process
    newest: dict[str, _Run] = field(default_factory=dict)  # by log
    counts: Counter[str] = field(default_factory=Counter)  # by log
    of_ids: dict[tuple[str, int, str], int] = field(default_factory=dict)

    def of(self, log: str, pid: int, compile_id: str | None, step: str = "") -> int:
        """The epoch of a record. `step` is something that a compile does once; a second time is of a new epoch."""
        pid = pid if pid < _BIGGEST_PID else 0
        run = self.runs.get((log, pid)) or (self.newest.get(log) if not step else None) or self._begin(log, pid)
        if compile_id is None:
            return run.epoch
        if step:
            if (compile_id, step) in run.begun:
                run = self._begin(log, pid)
            run.begun.add((compile_id, step))
            self.of_ids[log, pid, compile_id] = run.epoch
        return self.of_ids.get((log, pid, compile_id), run.epoch)

    def process(self, log: str, pid: int) -> None:
        """Records of process `pid` follow, whether or not one of them says that a compile begins."""
        pid = pid if pid < _BIGGEST_PID else 0
        if (log, pid) not in self.runs:
            self._begin(log, pid)

    def _begin(self, log: str, pid: int) -> _Run:
        run = self.runs[log, pid] = self.newest[log] = _Run(self.counts[log])
        self.counts[log] += 1
        return run


class Insight(Protocol):
    """An object that sees every record once, in order."""

    def see(self, record: Record) -> None:
        """Use the relevant parts of `record`."""


I = TypeVar("I", bound=Insight)  # noqa: E741


def ask(insight: I, records: Iterable[Record]) -> I:
    """Show all `records` to `insight`, and return it."""
    for record in records:
        insight.see(record)
    return insight
