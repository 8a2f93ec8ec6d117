"""Several ranks: where they compiled different things, or found different things in their caches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from repro_kit.trace.places import ref_of
from repro_kit.trace.record import Record

_MOST = 200  # divergences that are told apart


@dataclass(frozen=True)
class Divergence:
    """Something in which ranks differ: ``compiles``, ``cache`` or ``graph``; a group is what some saw, and who."""

    what: str
    compile_id: str
    groups: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Ranks:
    """The ranks of a trace and in what they differ."""

    ranks: tuple[int, ...] = ()
    compiles: dict[int, int] = field(default_factory=dict)  # by rank
    divergences: tuple[Divergence, ...] = ()
    left_out: int = 0


@dataclass
class RankBooks:
    """Keeps a few bytes a compile and rank."""

    graphs: dict[str, dict[int, str]] = field(default_factory=dict)
    caches: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    compiles: dict[int, dict[str, None]] = field(default_factory=dict)

    def see(self, record: Record) -> None:
        """Take what a rank compiled."""
        ref = ref_of(record) if record.rank is not None else None
        if record.rank is None or ref is None:
            return
        self.compiles.setdefault(record.rank, {}).setdefault(ref.compile_id)
        if record.event == "dynamo_output_graph":
            digest = hashlib.md5((record.payload or "").encode(), usedforsecurity=False).hexdigest()[:8]
            self.graphs.setdefault(ref.compile_id, {})[record.rank] = digest
        elif "_cache_" in record.name and record.event == "artifact":
            seen = self.caches.setdefault(ref.compile_id, {}).setdefault(record.rank, [])
            seen.append(record.name)

    def result(self) -> Ranks:
        """What differs; nothing where there is one rank."""
        ranks = tuple(sorted(self.compiles))
        found = list(self._differences(ranks)) if len(ranks) > 1 else []
        counts = {rank: len(ids) for rank, ids in sorted(self.compiles.items())}
        return Ranks(ranks, counts, tuple(found[:_MOST]), max(0, len(found) - _MOST))

    def _differences(self, ranks: tuple[int, ...]) -> Iterator[Divergence]:
        for compile_id in dict.fromkeys(compile_ for rank in ranks for compile_ in self.compiles[rank]):
            there = {rank: "compiled" if compile_id in self.compiles[rank] else "not compiled" for rank in ranks}
            yield from _differing("compiles", compile_id, there)
            yield from _differing("graph", compile_id, self.graphs.get(compile_id, {}))
            caches = {rank: ", ".join(names) for rank, names in self.caches.get(compile_id, {}).items()}
            yield from _differing("cache", compile_id, caches)


def _differing(what: str, compile_id: str, seen: dict[int, str]) -> Iterator[Divergence]:
    groups: dict[str, list[int]] = {}
    for rank, value in seen.items():
        groups.setdefault(value, []).append(rank)
    if len(groups) > 1:
        yield Divergence(what, compile_id, tuple((value, tuple(at)) for value, at in groups.items()))
