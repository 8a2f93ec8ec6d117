"""Read dumps of torch's flight recorder, one file a rank: the collectives that the rank called.

torch writes them at a time-out of NCCL (``TORCH_FR_DUMP_TEMP_FILE`` is what their names begin with; by default they
are called ``nccl_trace_rank_N`` or ``comm_lib_trace_rank_N``), or when asked
(``torch._C._distributed_c10d._dump_fr_trace``). A dump is a pickle of plain values, or the same as JSON
(torch/csrc/distributed/c10d/FlightRecorder.hpp). A dump may come from a stranger: no class of a pickle is looked up.
"""

from __future__ import annotations

import io
import pickle
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from repro_kit.errors import ReproKitError
from repro_kit.model.rank_history import Collective
from repro_kit.plain_file import open_plain, read_plain

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
