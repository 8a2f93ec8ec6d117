"""Compare the collectives of ranks that left dumps of the flight recorder: where they part, and who does not come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from repro_kit.errors import ReproKitError
from repro_kit.model.rank_history import Collective, differing, in_order
from repro_kit.trace.flight_recorder import RankDump, dumps_in, read_dump


@dataclass(frozen=True)
class DumpedRank:
    """One rank: how many collectives its dump holds, the last one, and the first that was not done."""

    rank: int
    collectives: int = 0
    last: Collective | None = None
    waits: Collective | None = None


@dataclass(frozen=True)
class Waiting:
    """A collective that is not done, the ranks in it, and the other ranks of its group, which did not come to it.

    `absent`: each with the last collective of the group that it began, if any.
    """

    collective: Collective
    ranks: tuple[int, ...]
    absent: tuple[tuple[int, Collective | None], ...] = ()


@dataclass(frozen=True)
class Collectives:
    """What the dumps of all ranks say. `apart`: the first collective that differs, in words.

    `undumped`: the members of a group that left no dump. `unread`: why a dump could not be read, in a sentence each.
    """

    ranks: tuple[DumpedRank, ...] = ()
    apart: str = ""
    waiting: Waiting | None = None
    undumped: tuple[int, ...] = ()
    unread: tuple[str, ...] = ()


def collectives_in(directory: Path) -> Collectives:
    """Read the dumps in `directory`, and compare them; nothing where there are none."""
    dumps: dict[int, RankDump] = {}
    unread = []
    for path in dumps_in(directory):
        try:
            dump = read_dump(path)
        except (ValueError, ReproKitError, OSError) as error:
            unread.append(str(error))
            continue
        if dump.rank in dumps:
            unread.append(f"{path.name} was left out: another dump is of rank {dump.rank} too.")
        else:
            dumps[dump.rank] = dump
    return _compared(list(dumps.values()), tuple(unread))


def _compared(dumps: Sequence[RankDump], unread: tuple[str, ...]) -> Collectives:
    calls = {dump.rank: dump.collectives for dump in dumps}
    ranks = tuple(
        DumpedRank(rank, len(made), made[-1] if made else None, next((call for call in made if not call.done), None))
        for rank, made in calls.items()
    )
    members = {rank for dump in dumps for group in dump.members.values() for rank in group}
    return Collectives(
        ranks, differing(calls), next(_waiting(dumps), None), tuple(sorted(members - set(calls))), unread
    )


def _waiting(dumps: Sequence[RankDump]) -> Iterator[Waiting]:
    """The collectives that are not done: first those to which a rank did not come, the oldest first."""
    calls = {dump.rank: dump.collectives for dump in dumps}
    found = []
    for group, number, by_rank in in_order(calls):
        undone = tuple(rank for rank, call in by_rank.items() if not call.done)
        if undone:
            absent = tuple(_absent(dumps, group, number))
            found.append(Waiting(by_rank[undone[0]], undone, absent))
    yield from sorted(found, key=lambda waiting: not waiting.absent)


def _absent(dumps: Sequence[RankDump], group: str, number: int) -> Iterator[tuple[int, Collective | None]]:
    """The ranks of `group` that have begun fewer than `number` of its collectives."""
    members = _ranks_of_group(dumps, group)
    for dump in dumps:
        of_group = [call for call in dump.collectives if call.group == group]
        last = max(of_group, key=lambda call: call.number, default=None)
        if dump.rank in members and (last is None or last.number < number):
            yield dump.rank, last


def _ranks_of_group(dumps: Sequence[RankDump], group: str) -> set[int]:
    """The ranks of a group: as a dump says, else those that called a collective of it."""
    said: Mapping[str, tuple[int, ...]] = {}
    for dump in dumps:
        said = {**dump.members, **said}
    if group in said:
        return set(said[group])
    return {dump.rank for dump in dumps if any(call.group == group for call in dump.collectives)}
