"""Compare the collectives of ranks that left dumps of torch's flight recorder."""

from __future__ import annotations

import io
import pickle
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from repro_kit.errors import ReproKitError
from repro_kit.files import open_plain, read_plain
from repro_kit.trace.rank_history import Collective, differing, in_order

_LARGEST = 256 << 20  # bytes of a dump
_NAME = re.compile(r"(?P<rank>\d{1,9})(?:\.(?:json|pkl|pickle))?$")
_LIBRARIES = re.compile(r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib[/\\]python3|^<|^$|torchinductor_")


@dataclass(frozen=True)
class RankDump:
    """What one dump says. `members`: the ranks of each group, where the dump names them."""

    rank: int
    collectives: tuple[Collective, ...] = ()
    members: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


class _NoClasses(pickle.Unpickler):
    """Reads plain values only."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuse every class and function."""
        raise pickle.UnpicklingError(f"it names {module}.{name}, and a dump holds plain values only")


def is_dump(path: Path) -> bool:
    """Whether the file is named and begins like a dump."""
    if not _NAME.search(path.name) or not path.is_file():
        return False
    try:
        with open_plain(path) as file:
            first = file.read(1)
    except (OSError, ReproKitError):
        return False
    return first in (b"\x80", b"{")


def dumps_in(directory: Path) -> list[Path]:
    """The dumps in `directory`, by rank."""
    return sorted(filter(is_dump, directory.iterdir()), key=lambda path: (_rank(path), path.name))


def read_dump(path: Path) -> RankDump:
    """Read the dump of one rank; the number at the end of the file's name is the rank.

    Raises ValueError where it is no dump, ReproKitError or OSError where the file cannot be read.
    """
    data = read_plain(path, _LARGEST)
    try:
        content = orjson.loads(data) if data.startswith(b"{") else _NoClasses(io.BytesIO(data)).load()
        entries = content["entries"]
        collectives = tuple(_collective(entry) for entry in entries if not entry.get("is_p2p"))
        members = dict(_members(content.get("pg_config") or {}))
    except (pickle.UnpicklingError, EOFError, KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path.name} is not a dump of torch's flight recorder: {error}.") from error
    return RankDump(_rank(path), collectives, members)


def _rank(path: Path) -> int:
    name = _NAME.search(path.name)
    assert name is not None  # `is_dump` saw it
    return int(name["rank"])


def _collective(entry: Mapping[str, Any]) -> Collective:
    return Collective(
        name=sys.intern(str(entry["profiling_name"]).rpartition(":")[2]),
        group=sys.intern(str(entry["process_group"][0])),
        number=int(entry["collective_seq_id"]),
        sizes=tuple(tuple(map(int, size)) for size in entry.get("input_sizes") or ()),
        dtypes=tuple(sys.intern(str(dtype)) for dtype in entry.get("input_dtypes") or ()),
        line=sys.intern(_users_line(entry.get("frames") or ())),
        began=int(entry["time_created_ns"]) / 1e9,
        done=bool(entry.get("retired")) or entry.get("state") == "completed",
    )


def _users_line(frames: Any) -> str:
    """``FILE:LINE`` of the innermost frame that is of no installed package."""
    places = [(str(frame["filename"]), int(frame["line"])) for frame in frames]
    own = next(((file, line) for file, line in places if not _LIBRARIES.search(file)), None)
    return f"{own[0]}:{own[1]}" if own else ""


def _members(groups: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The ranks of each group, written as ``[0, 1]``; gloo leaves them out."""
    for name, group in groups.items():
        ranks = tuple(map(int, re.findall(r"\d+", str(group.get("ranks", "")))))
        if name and ranks:
            yield name, ranks


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
