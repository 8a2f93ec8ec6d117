"""Compare ranks: where they compiled different code, or got different results from their caches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson

from repro_kit.trace.insights.compile_index import CompileIndex
from repro_kit.trace.places import CompileRef, ref_of
from repro_kit.trace.record import Record

_MOST = 200  # divergences that are listed


@dataclass(frozen=True)
class Divergence:
    """A difference between ranks; each group is a value and its ranks.

    `what`: ``code`` (the compile is of different functions, as in a pipeline), ``compiles``, ``graph``, ``collectives``
    (their order in what Inductor generated) or ``cache``.
    """

    what: str
    compile_id: str
    groups: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Ranks:
    """The ranks of a trace and their differences."""

    ranks: tuple[int, ...] = ()
    compiles: dict[int, int] = field(default_factory=dict)  # by rank
    divergences: tuple[Divergence, ...] = ()
    left_out: int = 0


@dataclass
class RankBooks:
    """Collects a few bytes for each compile and rank."""

    index: CompileIndex
    refs: dict[str, dict[int, CompileRef]] = field(default_factory=dict)
    graphs: dict[str, dict[int, str]] = field(default_factory=dict)
    schedules: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    caches: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    compiles: dict[int, dict[str, None]] = field(default_factory=dict)

    def see(self, record: Record) -> None:
        """Record what a rank compiled."""
        ref = ref_of(record) if record.rank is not None else None
        if record.rank is None or ref is None:
            return
        self.compiles.setdefault(record.rank, {}).setdefault(ref.compile_id)
        self.refs.setdefault(ref.compile_id, {}).setdefault(record.rank, ref)
        if record.event == "dynamo_output_graph":
            digest = hashlib.md5((record.payload or "").encode(), usedforsecurity=False).hexdigest()[:8]
            self.graphs.setdefault(ref.compile_id, {})[record.rank] = digest
        elif record.name == "inductor_collective_schedule":
            self.schedules.setdefault(ref.compile_id, {}).setdefault(record.rank, []).append(_schedule(record))
        elif "_cache_" in record.name and record.event == "artifact":
            seen = self.caches.setdefault(ref.compile_id, {}).setdefault(record.rank, [])
            seen.append(record.name)

    def result(self) -> Ranks:
        """The differences; none for a single rank."""
        ranks = tuple(sorted(self.compiles))
        divergences = list(self._differences(ranks)) if len(ranks) > 1 else []
        counts = {rank: len(ids) for rank, ids in sorted(self.compiles.items())}
        return Ranks(ranks, counts, tuple(divergences[:_MOST]), max(0, len(divergences) - _MOST))

    def _differences(self, ranks: tuple[int, ...]) -> Iterator[Divergence]:
        for compile_id in dict.fromkeys(compile_ for rank in ranks for compile_ in self.compiles[rank]):
            different = list(_differing("code", compile_id, self._functions(compile_id)))
            if different:  # nothing else of it can be compared
                yield from different
                continue
            states = {rank: "compiled" if compile_id in self.compiles[rank] else "not compiled" for rank in ranks}
            yield from _differing("compiles", compile_id, states)
            yield from _differing("graph", compile_id, self.graphs.get(compile_id, {}))
            schedules = {rank: "; ".join(texts) for rank, texts in self.schedules.get(compile_id, {}).items()}
            yield from _differing("collectives", compile_id, schedules)
            caches = {rank: ", ".join(names) for rank, names in self.caches.get(compile_id, {}).items()}
            yield from _differing("cache", compile_id, caches)

    def _functions(self, compile_id: str) -> dict[int, str]:
        """The function that each rank compiled, where the trace names it."""
        codes = {rank: self.index.code(ref) for rank, ref in self.refs.get(compile_id, {}).items()}
        return {
            rank: f"{code.function} ({code.file.rpartition('/')[2]}:{code.line})"
            for rank, code in codes.items()
            if code is not None
        }


def _schedule(record: Record) -> str:
    """The collectives of one graph in their order (torch/_inductor/debug.py, `log_collective_schedule`)."""
    try:
        names = orjson.loads(record.payload or "")
    except orjson.JSONDecodeError:
        return record.payload or ""
    return ", ".join(_plain(str(name)) for name in names) if isinstance(names, list) else str(names)


def _plain(kernel: str) -> str:
    """``all_reduce`` of ``torch.ops._c10d_functional.all_reduce_.default``."""
    return kernel.removesuffix(".default").rpartition(".")[2].rstrip("_")


def _differing(subject: str, compile_id: str, seen: dict[int, str]) -> Iterator[Divergence]:
    groups: dict[str, list[int]] = {}
    for rank, value in seen.items():
        groups.setdefault(value, []).append(rank)
    if len(groups) > 1:
        yield Divergence(subject, compile_id, tuple((value, tuple(sorted(at))) for value, at in groups.items()))
