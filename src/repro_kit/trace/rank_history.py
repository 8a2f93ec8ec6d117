"""What each rank of a distributed run did: its collectives and compiles; the first collective in which ranks part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from repro_kit.probe.repro_probe.protocol.findings import Doing

#: Collectives in which every rank gives a tensor of one size. In the others the sizes may differ.
_ONE_SIZE = ("all_reduce", "allreduce", "broadcast", "reduce", "_allgather_base", "all_gather_into_tensor")


@dataclass(frozen=True)
class Collective:
    """One collective that a rank began (`CollectiveData` of the probe's protocol)."""

    name: str
    group: str
    number: int
    sizes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    line: str = ""
    began: float = 0.0
    done: bool = True

    @property
    def kind(self) -> tuple[object, ...]:
        """What must be equal in the calls of all ranks."""
        return (self.name, self.sizes, self.dtypes) if self.name in _ONE_SIZE else (self.name,)

    def named(self, sizes: str = "") -> str:
        """The collective with the user's line."""
        place = f" at {short(self.line)}" if self.line else ""
        return f"{self.name}{sizes}{place}"


@dataclass(frozen=True)
class CompileTime:
    """A time in which a rank was compiling, in seconds since the epoch."""

    began: float
    ended: float


@dataclass(frozen=True)
class RankState:
    """What a rank did last (`RankStateData` of the probe's protocol); `pid` is its process."""

    rank: int
    size: int
    time: float
    doing: Doing
    line: str = ""
    collectives: tuple[Collective, ...] = ()
    compiles: tuple[CompileTime, ...] = ()
    pid: int = 0

    @property
    def last(self) -> Collective | None:
        """The last collective that the rank began."""
        return self.collectives[-1] if self.collectives else None

    def compiled_between(self, start: float, end: float) -> float:
        """The seconds between two times in which the rank was compiling."""
        return sum(max(0.0, min(end, span.ended) - max(start, span.began)) for span in self.compiles)

    @property
    def waits(self) -> Collective | None:
        """The collective that the rank waits in."""
        return self.last if self.doing == "collective" else None


def short(line: str) -> str:
    """A place, ``FILE:LINE``, without the directory."""
    return line.replace("\\", "/").rpartition("/")[2]


Calls = Mapping[int, Sequence[Collective]]  # the collectives of each rank


def in_order(calls: Calls) -> Iterator[tuple[str, int, dict[int, Collective]]]:
    """Each collective of a group by its number, with the calls of the ranks, in the order in which they began."""
    numbered: dict[tuple[str, int], dict[int, Collective]] = {}
    for rank, made in calls.items():
        for call in made:
            numbered.setdefault((call.group, call.number), {})[rank] = call
    for (group, number), by_rank in sorted(numbered.items(), key=lambda item: min(c.began for c in item[1].values())):
        yield group, number, by_rank


def differing(calls: Calls) -> str:
    """The first collective of a group that is not the same on all its ranks, in words; empty if there is none."""
    for group, number, by_rank in in_order(calls):
        if len({call.kind for call in by_rank.values()}) > 1:
            return f"number {number} of group {group} is {_apart(by_rank)}."
    return ""


def differing_collectives(states: Sequence[RankState]) -> str:
    """As `differing`, for the states of ranks."""
    return differing({state.rank: state.collectives for state in states})


def _apart(calls: dict[int, Collective]) -> str:
    """What differs, with the ranks of each kind, and the line of the first of these."""
    kinds: dict[tuple[object, ...], list[int]] = {}
    for rank, call in calls.items():
        kinds.setdefault(call.kind, []).append(rank)
    words = []
    for ranks in kinds.values():
        call = calls[ranks[0]]
        sizes = f" of {', '.join(map(str, map(list, call.sizes)))}" if call.sizes else ""
        words.append(f"{call.named(sizes)} on {named_ranks(ranks)}")
    return " and ".join(words)


def named_ranks(ranks: Sequence[int], most: int = 8) -> str:
    """``rank 1``, ``ranks 0, 2, 3``; of many, the first and how many more."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    more = f" and {len(ranks) - most} more" if len(ranks) > most else ""
    return f"ranks {', '.join(map(str, ranks[:most]))}{more}"
