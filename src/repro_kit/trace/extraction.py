"""The artifacts of a trace by kind and compile id: a list of them, and their texts under names fit for files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from repro_kit.trace.places import CompileRef, ref_of
from repro_kit.trace.record import Record
from repro_kit.trace.repair import bodies_in, repaired

#: Not artifacts but the trace's own book-keeping.
_INTERNAL = ("chromium_event",)
_PYTHON = re.compile(r"runnable|output_code|wrapper|orchestration")
_RUNNABLE, _BODIES = "fx_graph_runnable", "before_post_grad_graph"


@dataclass(frozen=True)
class ArtifactInfo:
    """One artifact. `index` counts those of the same kind and compile, forward before backward."""

    kind: str
    compile: CompileRef | None
    attempt: int
    index: int
    size: int  # in letters
    path: PurePosixPath  # where `extracted` puts it


@dataclass(frozen=True)
class Extracted:
    """An artifact's text, and what had to be done to it, or could not be."""

    info: ArtifactInfo
    text: str
    note: str = ""


@dataclass
class _Names:
    """Gives every artifact a path of its own."""

    seen: Counter[tuple[str, str, CompileRef | None, int]] = field(default_factory=Counter)
    first: dict[int | None, str] = field(default_factory=dict)  # log of each rank: processes share compile ids

    def info(self, record: Record) -> ArtifactInfo:
        ref, kind = ref_of(record), record.name
        key = record.file, kind, ref, record.attempt
        index = self.seen[key]
        self.seen[key] += 1
        name = ref.compile_id.replace("/", "_").replace("!", "ca") if ref else "no_compile"
        name += f"_attempt{record.attempt}" if record.attempt else ""
        name += f"_{index}" if index else ""
        size = len(record.payload or "")
        return ArtifactInfo(kind, ref, record.attempt, index, size, self._home(record) / (name + _suffix(record)))

    def _home(self, record: Record) -> PurePosixPath:
        """The kind, below the rank where there are ranks, below the log where there are several."""
        home = PurePosixPath() if record.rank is None else PurePosixPath(f"rank_{record.rank}")
        if self.first.setdefault(record.rank, record.file) != record.file:
            home /= f"of_{_safe(record.file.removesuffix('.log'))}"
        return home / _safe(record.name)


def listed(records: Iterable[Record]) -> Iterator[ArtifactInfo]:
    """Every record with a payload, in order, but for timings."""
    names = _Names()
    for record in records:
        if record.payload is not None and record.event not in _INTERNAL:
            yield names.info(record)


def extracted(
    records: Iterable[Record], kinds: Collection[str] = (), compile_ids: Collection[str] = ()
) -> Iterator[Extracted]:
    """The artifacts of these kinds and compiles (of all where none is named), one at a time.

    An ``fx_graph_runnable`` comes repaired, which needs a later artifact of the same compile: those are held back until
    that was seen.
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
            yield Extracted(info, record.payload, "" if record.intact else "its checksum does not fit")
    for left in waiting.values():
        yield from (_mended(one, "") for one in left)


def _mended(one: Extracted, graph: str) -> Extracted:
    text, notes = repaired(one.text, bodies_in(graph))
    return Extracted(one.info, text, "; ".join(notes))


def _suffix(record: Record) -> str:
    if _PYTHON.search(record.name):
        return ".py"
    payload = (record.payload or "").lstrip()
    return ".json" if payload[:1] in ("{", "[") and record.json() is not None else ".txt"


def _safe(name: str) -> str:
    """`name` as the name of a folder, whatever a trace says."""
    return re.sub(r"[^\w.-]", "_", name).strip(".") or "unnamed"
