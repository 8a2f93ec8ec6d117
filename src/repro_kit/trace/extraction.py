"""List the artifacts of a trace, extract their texts, and export the phases of all compiles as a Chrome trace."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import orjson

from repro_kit.trace.places import CompileRef, ref_of
from repro_kit.trace.record import Record
from repro_kit.trace.runnables import bodies_in, repaired

#: Internal records of the trace, which are not artifacts.
_INTERNAL = ("chromium_event",)
_PYTHON = re.compile(r"runnable|output_code|wrapper|orchestration")
_RUNNABLE, _BODIES = "fx_graph_runnable", "before_post_grad_graph"


@dataclass(frozen=True)
class ArtifactInfo:
    """One artifact. `index` counts artifacts of the same kind and compile, forward before backward."""

    kind: str
    compile: CompileRef | None
    attempt: int
    index: int
    size: int  # characters
    path: PurePosixPath  # where `extracted` places the artifact


@dataclass(frozen=True)
class Extracted:
    """An artifact's text, and a note on what was repaired in it or is wrong with it."""

    info: ArtifactInfo
    text: str
    note: str = ""


@dataclass
class _Names:
    """Gives every artifact its own path."""

    seen: Counter[tuple[str, str, CompileRef | None, int]] = field(default_factory=Counter)
    first: dict[int | None, str] = field(default_factory=dict)  # log of each rank: processes share compile ids

    def info(self, record: Record) -> ArtifactInfo:
        ref, kind = ref_of(record), record.name
        key = record.file, kind, ref, record.attempt
        index = self.seen[key]
        self.seen[key] += 1
        name = ref.compile_id.replace("/", "_").replace("!", "ca") if ref else "no_compile"
        name += f"_anew{ref.epoch}" if ref and ref.epoch else ""
        name += f"_attempt{record.attempt}" if record.attempt else ""
        name += f"_{index}" if index else ""
        size = len(record.payload or "")
        return ArtifactInfo(kind, ref, record.attempt, index, size, self._home(record) / (name + _suffix(record)))

    def _home(self, record: Record) -> PurePosixPath:
        """The folder of the kind, inside the rank's folder if there are ranks, and the log's if a rank has several."""
        home = PurePosixPath() if record.rank is None else PurePosixPath(f"rank_{record.rank}")
        if self.first.setdefault(record.rank, record.file) != record.file:
            home /= f"of_{_safe(record.file.removesuffix('.log'))}"
        return home / _safe(record.name)


def listed(records: Iterable[Record]) -> Iterator[ArtifactInfo]:
    """Every record with a payload, in order, except timings."""
    names = _Names()
    for record in records:
        if record.payload is not None and record.event not in _INTERNAL:
            yield names.info(record)


def extracted(
    records: Iterable[Record], kinds: Collection[str] = (), compile_ids: Collection[str] = ()
) -> Iterator[Extracted]:
    """The artifacts of these kinds and compiles (of all, if none is named), one at a time.

    An ``fx_graph_runnable`` is repaired with a later artifact of the same compile, so it is held back until then.
    """
    names = _Names()
    waiting: dict[CompileRef | None, list[Extracted]] = {}
    for record in records:
        if record.payload is None or record.event in _INTERNAL:
            continue
        ref, info = ref_of(record), names.info(record)
        if record.name == _BODIES and waiting.get(ref):
            yield _mended(waiting[ref].pop(0), record.payload)
        wanted = (not kinds or record.name in kinds) and (not compile_ids or (ref and ref.compile_id in compile_ids))
        if wanted and record.name == _RUNNABLE:
            waiting.setdefault(ref, []).append(Extracted(info, record.payload))
        elif wanted:
            yield Extracted(info, record.payload, "" if record.intact else "the checksum does not match")
    for left in waiting.values():
        yield from (_mended(script, "") for script in left)


def _mended(script: Extracted, graph: str) -> Extracted:
    text, notes = repaired(script.text, bodies_in(graph))
    return Extracted(script.info, text, "; ".join(notes))


def _suffix(record: Record) -> str:
    if _PYTHON.search(record.name):
        return ".py"
    payload = (record.payload or "").lstrip()
    return ".json" if payload[:1] in ("{", "[") and record.json() is not None else ".txt"


def _safe(name: str) -> str:
    """`name` as a safe folder name; a trace may be hostile."""
    return re.sub(r"[^\w.-]", "_", name).strip(".") or "unnamed"


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
