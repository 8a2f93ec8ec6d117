"""Streaming reader of torch's structured trace (``TORCH_TRACE``)."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections import ChainMap, Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from repro_kit.errors import ReproKitError, UsageError
from repro_kit.files import open_plain
from repro_kit.trace.record import CONTEXT, Epochs, Record, compile_id_of, frames_of, rank_named

_HEADER = re.compile(
    rb"^(?:\[rank\d+\]:)?[VDIWEC](\d{4} \d\d:\d\d:\d\d\.\d+) (\d{1,18}) .*?:\d+\](?: \[[\w!/-]+\])* (\{.*)$"
)


_NAME = "dedicated_log_torch_trace_*.log"
_LONGEST = 32 << 20  # bytes of a line
_LARGEST = 256 << 20  # bytes of a payload
_LOOKED_AT = 2000  # lines in which a rank is looked for
_TOLD = re.compile(rb'"rank": (\d{1,9})[,}]')
_ONCE = ("dynamo_start", "recompile_reasons")  # records that a compile writes once, in its first attempt
_TAB = 9  # begins every line of a payload
_NUMBERS = ("rank", "compiled_autograd_id", "frame_id", "frame_compile_id", "attempt")


@dataclass
class Problems:
    """Problems in a trace that was still read to the end."""

    damaged: int = 0  # records whose JSON or payload is cut off, changed or of an unexpected type
    stray: int = 0  # lines that belong to no record
    eventless: int = 0  # records without an event, or with several


@dataclass
class Reader:
    """Iterates over the records of one log or a directory of logs; updates `problems` and `events` on the way."""

    path: Path
    problems: Problems = field(default_factory=Problems)
    events: Counter[str] = field(default_factory=Counter)
    named: tuple[str, ...] = ()  # logs whose rank is that of their file name

    def __iter__(self) -> Iterator[Record]:
        earlier: dict[int, str] = {}
        epochs, logs = Epochs(), self.logs()
        ranks = _ranks(logs)
        self.named = tuple(path.name for path in logs if ranks[path].by_name)
        for path in logs:
            log = _Log(path, self.problems, earlier, epochs, ranks[path])
            for record in log.records():
                self.events[record.event] += 1
                yield record
            for table in log.tables.values():
                earlier = {**table.maps[0], **earlier}

    def logs(self) -> list[Path]:
        """The logs, by the time of their first record."""
        if not self.path.is_dir():
            return [self.path]
        logs = (log for log in self.path.glob("*.log") if log.is_file())
        return sorted(logs, key=lambda log: (_first_line(log), log.name))


def read(path: str | Path) -> Reader:
    """The records of a TORCH_TRACE log, or of all logs in a directory, one at a time and in constant memory.

    Unknown events are passed on unchanged. Blank lines, a cut-off end and damaged records are skipped and counted
    (`Reader.problems`). A payload with a wrong checksum is marked. Raises ReproKitError if nothing is at `path`.
    """
    path = Path(path)
    if not path.exists():
        raise UsageError(f"There is no trace at {path}; give a log or the directory that TORCH_TRACE named.")
    return Reader(path)


def is_log(path: Path) -> bool:
    """Whether the regular file `path` is a TORCH_TRACE log: by the name that torch gives it, else by its first line."""
    return path.is_file() and (path.match(_NAME) or bool(_first_line(path)))


def opened(path: Path) -> BinaryIO:
    """Open `path` for reading. Raises ReproKitError if that fails."""
    try:
        return open_plain(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a log. Only the beginning of an endless line is returned."""
    for line in iter(partial(file.readline, _LONGEST), b""):
        yield line
        rest = line
        while len(rest) == _LONGEST and not rest.endswith(b"\n"):
            rest = file.readline(_LONGEST)


def _body(payload: list[bytes], checksum: str) -> tuple[bytes, bool]:
    """The payload, and whether it is as torch wrote it; git, say, may have changed the ends of its lines."""
    written = b"".join(payload)
    for text in (written, written.replace(b"\r\n", b"\n")):
        body = text.removesuffix(b"\n")
        if hashlib.md5(body, usedforsecurity=False).hexdigest() == checksum:
            return body, True
    return written.removesuffix(b"\n"), False


@dataclass(frozen=True)
class _LogRank:
    """The rank of a log: by its records, else by its file name.

    `overrides`: its records claim the rank of another log, as those of a copied or renamed log do.
    """

    rank: int | None = None
    by_name: bool = False
    overrides: bool = False


def _ranks(logs: Sequence[Path]) -> dict[Path, _LogRank]:
    recorded = {log: _recorded_rank(log) for log in logs}
    names = {log: rank_named(log.name) for log in logs}
    ranks = {}
    for log in logs:
        told, named = recorded[log], names[log]
        taken = told != named and any(
            other != log and (names[other] if names[other] is not None else recorded[other]) == told for other in logs
        )
        if named is not None and (told is None or taken):
            ranks[log] = _LogRank(named, by_name=True, overrides=told is not None)
        else:
            ranks[log] = _LogRank(told)
    return ranks


def _recorded_rank(log: Path) -> int | None:
    """The first rank that a record near the beginning of `log` tells."""
    with opened(log) as file:
        for raw in islice(_lines(file), _LOOKED_AT):
            found = _TOLD.search(raw) if raw[0] != _TAB and _HEADER.match(raw) else None
            if found:
                return int(found[1])
    return None


def _first_line(log: Path) -> bytes:
    with opened(log) as file:
        header = _HEADER.match(file.readline(4096).rstrip(b"\r\n"))
    return header[1] if header else b""


def _sound(data: dict[str, Any]) -> bool:
    """Whether the context has the types that torch writes."""
    for key in _NUMBERS:
        value = data.get(key)
        if value is not None and not isinstance(value, int):
            return False
    return isinstance(data.get("has_payload"), str | None)


@dataclass
class _Log:
    """The state of reading one log: the file names, and the record whose payload may continue."""

    path: Path
    problems: Problems
    earlier: dict[int, str]  # a forked process continues its parent's table, and writes only new entries
    epochs: Epochs
    rank: _LogRank
    tables: dict[int, ChainMap[int, str]] = field(default_factory=dict)  # by process, since several may share a log

    def records(self) -> Iterator[Record]:
        header: re.Match[bytes] | None = None
        payload: list[bytes] = []
        with opened(self.path) as file:
            size = 0
            for raw in _lines(file):
                if raw[0] == _TAB and header:
                    size += len(raw)
                    if size < _LARGEST:
                        payload.append(raw[1:])
                    continue
                line = raw.rstrip(b"\n")
                if not line.strip():
                    continue
                if header:
                    yield from self._record(header, payload)
                header, payload, size = _HEADER.match(line), [], 0
                self.problems.stray += header is None
        if header:
            yield from self._record(header, payload)

    def _record(self, header: re.Match[bytes], payload: list[bytes]) -> Iterator[Record]:
        try:
            data = orjson.loads(header[3])
        except orjson.JSONDecodeError:
            self.problems.damaged += 1
            return
        if not isinstance(data, dict) or not _sound(data):
            self.problems.damaged += 1
            return
        if isinstance(data.get("str"), list):
            self._intern(data["str"], self._strings(header))
            return
        events = [key for key in data if key not in CONTEXT]
        if len(events) != 1:
            self.problems.eventless += 1
            return
        yield self._typed(header, data, events[0], payload)

    def _typed(self, header: re.Match[bytes], data: dict[str, Any], event: str, payload: list[bytes]) -> Record:
        checksum = data.get("has_payload")
        body, intact = _body(payload, checksum) if checksum else (b"", True)
        strings = self._strings(header)
        self.problems.damaged += not intact
        compile_id, attempt, pid = compile_id_of(data), data.get("attempt") or 0, int(header[2])
        rank, known = data.get("rank"), data[event] if isinstance(data[event], dict) else {}
        name = str(known.get("name", "")) if event == "artifact" else event
        step = name if name in _ONCE and not attempt else ""
        about = known.get("compile_id") if event.endswith("compilation_metrics") else None
        return Record(
            event,
            data[event],
            file=self.path.name,
            time=header[1].decode(),
            pid=pid,
            compile_id=compile_id,
            attempt=attempt,
            rank=self.rank.rank if rank is None or self.rank.overrides else rank,
            payload=body.decode("utf-8", "replace") if checksum else None,
            intact=intact,
            stack=frames_of(data.get("stack"), strings) if "stack" in data else (),
            epoch=self.epochs.of(self.path.name, pid, about if isinstance(about, str) else compile_id, step),
            strings=strings,
        )

    def _strings(self, header: re.Match[bytes]) -> ChainMap[int, str]:
        """The file names of the process that wrote the record."""
        pid = int(header[2])
        if pid not in self.tables:
            self.tables[pid] = ChainMap({}, self.earlier)
        return self.tables[pid]

    def _intern(self, entry: list[Any], strings: ChainMap[int, str]) -> None:
        if len(entry) == 2 and isinstance(entry[1], int):
            strings[entry[1]] = str(entry[0])


_UNPACKERS = {b"\x1f\x8b": "gunzip", b"BZh": "bunzip2", b"\xfd7zXZ\0": "unxz", b"\x28\xb5\x2f\xfd": "unzstd"}
_LONGEST_HEAD = max(map(len, _UNPACKERS))
_WANTED = "give a TORCH_TRACE log or directory, or the text of TORCH_LOGS"


def no_log(path: Path) -> str:
    """One sentence that names what is wrong with `path`, and what to do."""
    if path.is_dir():
        return _of_directory(path)
    if path.suffix == ".pt2":
        return (
            f"{path} is an exported program, and no trace; compile it with: repro-kit collect {shlex.quote(str(path))}"
        )
    if path.stat().st_size == 0:
        return f"{path} is empty: nothing was compiled in its process, or the disk was full; {_WANTED}."
    return packed(path) or f"{path} holds no records of torch; {_WANTED}."


def packed(path: Path) -> str:
    """The sentence about a compressed file; empty for any other file."""
    try:
        with open_plain(path) as file:
            start = file.read(_LONGEST_HEAD)
    except (OSError, ReproKitError):
        return ""
    unpacker = next((program for magic, program in _UNPACKERS.items() if start.startswith(magic)), "")
    return f"{path} is compressed; unpack it first: {unpacker} {path.name}" if unpacker else ""


def _of_directory(path: Path) -> str:
    files = sorted(path.iterdir())
    if not files:
        return f"{path} is an empty directory; torch writes its logs where TORCH_TRACE says, once it compiles."
    below = [folder.name for folder in files if folder.is_dir() and any(map(is_log, folder.glob("*.log")))]
    if below:
        return f"{path} holds no log itself, but its directories do ({', '.join(below[:3])}); give one of them."
    sentences = (packed(file) for file in files if file.is_file())
    return next(filter(None, sentences), f"{path} holds no records of torch; {_WANTED}.")
