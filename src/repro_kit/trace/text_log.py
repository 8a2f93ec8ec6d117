"""Read plain ``TORCH_LOGS`` text, as pasted into issues, into the records of a structured trace.

Reads graph breaks, recompiles, guards, symbols and the recompile limit, in the current format, in that of torch 2.0 to
2.3 (``[2023-11-06 14:54:45,922] torch._dynamo.guards.__recompiles: [DEBUG] …``), and without prefixes. A text has no
times, graphs or inputs, so the insights lack these.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import orjson

from repro_kit.trace.log_lines import Heads, LogLine, Stamp, listed, log_lines
from repro_kit.trace.reader import opened
from repro_kit.trace.record import Epochs, Record, rank_named

_STARTS = re.compile(
    r"^\s*(?:Graph break|Recompiling function|(?:torch\._dynamo|torchdynamo) hit config\.|GUARDS:|Python shape guard"
    r"|(?:torch\._dynamo\.exc\.)?FailOnRecompileLimitHit: |create_symbol |create_unbacked|eval |set_replacement "
    r"|torchdynamo start compiling|Step 1: )"
)
#: Does not match the warning before a graph break.
_BREAK = re.compile(
    r"Graph break(?: (?:\(user stack suppressed [^)]*\) )?in user code at|: (?!from user code at)"
    r"|: from user code at.*(?:Traceback|Unsupported))",
    re.S,
)
#: torch 2.0 writes no line.
_RECOMPILING = re.compile(r"Recompiling function (?P<name>\S+) in (?P<file>.+?)(?::(?P<line>\d{1,9}))?\s*(?:\n|$)")
_LIMIT = re.compile(
    r"(?:torch\._dynamo|torchdynamo) hit config\.(?P<name>\w+) \((?P<n>\d{1,9})\)"
    r"\s+function: '(?P<function>.+?)' \((?P<file>.+?):(?P<line>\d{1,9})\)"
    r"(?:\s+last reason: (?P<reason>.*)|\s+reasons:\s+(?P<reasons>\[.*\]))?"
)
_RAISED = re.compile(r"(?:torch\._dynamo\.exc\.)?FailOnRecompileLimitHit: ")
_ENTRY = re.compile(r"^(?P<frame>(?:!\d+/)?\d+)/(?P<at>\d{1,9}): ")
_SYMBOL = re.compile(
    r"^create_symbol (?P<symbol>\w+) = (?P<val>\S+) for (?P<source>.+?) (?P<vr>\[[^\]]*\]) ?(?P<rest>.*)", re.S
)
_REPLACED = re.compile(r"^set_replacement (?P<symbol>\w+) = (?P<value>-?[\d.]+) \((?P<reason>[^)]*)\)")
_START = re.compile(r"^torchdynamo start compiling (?P<name>\S+) (?P<file>[^\n]+?):(?P<line>\d{1,9})")
_SLOC = re.compile(r"^(?P<code>.*?)  # (?P<file>\S+):(?P<line>\d{1,9}) in (?P<name>\S+)")
_SPLIT = re.compile(
    r"; (?=tensor '|[\w.]+\(|[LG]\[|not |-?\d+ <|[A-Za-z_][\w.\[\]'\"]* (?:==|is|!=|in|not) |[A-Z_]+_MATCH)"
)
#: The kinds of messages that are read (torch/_logging/_registrations.py), and what needs no reading in them.
_TAGS = ("__recompiles", "__recompiles_verbose", "__graph_breaks", "__guards")
_KNOWN = re.compile(
    r"Graph break from `|Graph break: from user code at|Python shape guard function|Guard eval latency|GUARDS:"
    r"|def ___make_guard_fn|return |To diagnose recompilation|To log all recompilation"
)
_LONGEST_LINE = 1 << 20  # characters; the rest counts as the next line
_LARGEST = 16 << 20  # characters of a message
_MOST_TEXTS = 100_000  # messages that are remembered
_LONGEST = 100_000  # lines of a message; a program's own output after it has no prefix


@dataclass(frozen=True)
class TextLines:
    """How much of torch's text was read. `first`: the first line that should have been read and was not."""

    total: int = 0  # lines of torch
    unread: int = 0  # lines that were not understood
    first: str = ""
    other: dict[str, int] = field(default_factory=dict)  # lines of kinds that are not asked for, by kind


@dataclass
class _Message:
    """Lines that were logged together."""

    stamp: Stamp | None = None  # of its first line
    stream: str = ""
    rank: int | None = None
    lines: list[str] = field(default_factory=list)
    stamped: int = 0  # lines with a stamp
    size: int = 0  # characters in `lines`
    compile_id: str | None = None
    log: str = ""

    @property
    def text(self) -> str:
        return "\n".join(self.lines).strip("\n")

    @property
    def tag(self) -> str:
        return self.stamp.tag if self.stamp else ""

    def add(self, line: str, *, stamped: bool) -> None:
        """Another line, unless the message is too long to be one.

        Where torch stamps each line of a message, lines without a stamp are the program's own.
        """
        if stamped and self.stamped == 1:
            del self.lines[1:]
        self.stamped += stamped
        if len(self.lines) < _LONGEST and self.size < _LARGEST:
            self.lines.append(line)
            self.size += len(line)


@dataclass
class TextReader:
    """Iterates over the records in a text; `events` counts them, `lines` what was read of it."""

    path: Path
    events: Counter[str] = field(default_factory=Counter)
    _counts: Counter[str] = field(default_factory=Counter)  # number of compiles of a function without ids
    _reasoned: set[tuple[str, int, str | None]] = field(default_factory=set)  # compiles with known reasons
    _symbols: dict[tuple[str, str | None, str], str] = field(default_factory=dict)  # the source of a symbol
    _epochs: Epochs = field(default_factory=Epochs)
    _tally: Counter[str] = field(default_factory=Counter)  # lines of torch: read, unread, or of a kind
    _first: str = ""
    _limited: _Message | None = None  # the last message that a function hit the limit
    _twice: dict[int, list[int]] = field(
        default_factory=dict
    )  # messages with a stamp and without, by the hash of their text

    def __iter__(self) -> Iterator[Record]:
        files = sorted(path for path in self.path.iterdir() if path.is_file()) if self.path.is_dir() else [self.path]
        for file in files:
            heads = Heads.learnt(_raw_lines(file))
            for message in _messages(log_lines(_raw_lines(file), heads)):
                message.log = f"{file.name} ({message.stream})" if message.stream else file.name
                message.rank = rank_named(file.name) if message.rank is None else message.rank
                if self._is_repeated(message):
                    continue
                if message.stamp is not None and message.stamp.pid:
                    self._epochs.process(message.log, message.stamp.pid)
                records = [*self._records(message, message.log)]
                self._count(message, bool(records))
                for record in records:
                    self.events[record.event] += 1
                    yield record

    @property
    def lines(self) -> TextLines:
        """What was read so far."""
        other = {kind: number for kind, number in self._tally.items() if kind not in ("", "?")}
        return TextLines(sum(self._tally.values()), self._tally["?"], self._first, other)

    def _is_repeated(self, message: _Message) -> bool:
        """Whether a handler of the program's own wrote the message once more, in its own form."""
        text = _gist(message)
        if not text:
            return False
        forms = self._twice.setdefault(hash(text), [0, 0]) if len(self._twice) < _MOST_TEXTS else [0, 0]
        own = message.stamp is None
        forms[own] += 1
        return forms[own] <= forms[not own]

    def _count(self, message: _Message, read: bool) -> None:
        stamp = message.stamp
        if read:
            self._tally[""] += message.stamped or len(message.lines)
        elif stamp is None:
            if _STARTS.match(message.text):
                self._unread(message)
        elif not message.text.strip() or _KNOWN.match(message.text.lstrip()):
            self._tally[""] += message.stamped
        elif stamp.tag in _TAGS or (not stamp.tag and stamp.level in "WEC"):
            self._unread(message)
        else:
            self._tally[stamp.tag.strip("_") or "debug"] += message.stamped

    def _unread(self, message: _Message) -> None:
        self._tally["?"] += message.stamped or 1
        self._first = self._first or next((line.strip() for line in message.lines if line.strip()), "")[:200]

    def _records(self, message: _Message, log: str) -> Iterator[Record]:
        text = message.text
        stripped = text.lstrip()
        if _BREAK.match(stripped):
            yield self._record(message, log, "artifact", {"name": "dynamo_graph_break_reason"}, text)
        elif recompiling := _RECOMPILING.match(stripped):
            yield from self._recompiled(message, log, recompiling)
        elif limit := _LIMIT.match(stripped):
            yield from self._limit(message, log, limit)
        elif _RAISED.match(stripped) and self._limited:
            yield self._refused(self._limited, "FailOnRecompileLimitHit", stripped)
        elif stripped.startswith(("GUARDS:", "TREE_GUARD_MANAGER:")):
            yield self._record(message, log, "dynamo_cpp_guards_str", {}, _tree(message.lines))
        elif started := _START.match(stripped):
            self._begin(message, "start")
            yield self._started(message, log, started)
        elif symbol := _SYMBOL.match(stripped):
            yield self._symbol(message, log, symbol)
        elif replaced := _REPLACED.match(stripped):
            yield self._replaced(message, log, replaced, text)

    def _recompiled(self, message: _Message, log: str, match: re.Match[str]) -> Iterator[Record]:
        reasons = _reasons(message)
        if message.compile_id is None:
            message.compile_id = self._id(match["name"], reasons)
        self._begin(message, "recompile")
        self._reasoned.add(self._key(message))
        yield self._started(message, log, match)
        payload = orjson.dumps(reasons).decode()
        yield self._record(message, log, "artifact", {"name": "recompile_reasons"}, payload)

    def _id(self, name: str, reasons: list[str]) -> str:
        """The id of a compile that the text does not name: from its cache entry, or by counting."""
        entries = [entry for entry in map(_ENTRY.match, reasons) if entry]
        if entries:
            return f"{entries[0]['frame']}/{max(int(entry['at']) for entry in entries) + 1}"
        self._counts[name] += 1
        return f"{name}/{self._counts[name]}"

    def _limit(self, message: _Message, log: str, match: re.Match[str]) -> Iterator[Record]:
        reasons = [match["reason"]] if match["reason"] else listed(match["reasons"] or "")
        if message.compile_id is None:
            message.compile_id = self._id(match["function"], reasons)
        self._begin(message, "limit")
        yield self._started(message, log, match, match["function"])
        if reasons and self._key(message) not in self._reasoned:
            payload = orjson.dumps(reasons).decode()
            yield self._record(message, log, "artifact", {"name": "recompile_reasons"}, payload)
        reason = f"{match['name']} reached, currently set to {match['n']}"
        self._limited = message
        yield self._refused(message, "RecompileLimitExceeded", reason)

    def _refused(self, message: _Message, error: str, reason: str) -> Record:
        metrics = {"compile_id": message.compile_id, "fail_type": error, "fail_reason": reason.partition("\n")[0]}
        return self._record(message, message.log, "compilation_metrics", metrics)

    def _started(self, message: _Message, log: str, match: re.Match[str], name: str | None = None) -> Record:
        frame = {"filename": 0, "line": int(match["line"] or 0), "name": name or match["name"]}
        return self._record(message, log, "dynamo_start", {"stack": [frame]}, strings={0: match["file"]})

    def _symbol(self, message: _Message, log: str, match: re.Match[str]) -> Record:
        self._symbols[log, message.compile_id, match["symbol"]] = match["source"]
        data: dict[str, Any] = {key: match[key] for key in ("symbol", "val", "source", "vr")}
        return self._record(message, log, "create_symbol", *_at(data, match["rest"]))

    def _replaced(self, message: _Message, log: str, match: re.Match[str], text: str) -> Record:
        source = self._symbols.get((log, message.compile_id, match["symbol"]))
        data: dict[str, Any] = {key: match[key] for key in ("symbol", "value", "reason")}
        data["sources"] = [source] if source else []
        data, payload, strings = _at(data, text[text.index(")") + 1 :])
        return self._record(message, log, "symbolic_shape_specialization", data, payload, strings)

    def _begin(self, message: _Message, step: str) -> None:
        """A step that a compile takes once: a second time, the ids have begun anew."""
        self._epochs.of(message.log, _pid(message), message.compile_id, step)

    def _key(self, message: _Message) -> tuple[str, int, str | None]:
        return message.log, self._epochs.of(message.log, _pid(message), message.compile_id), message.compile_id

    def _record(
        self,
        message: _Message,
        log: str,
        event: str,
        data: Any,
        payload: str | None = None,
        strings: dict[int, str] | None = None,
    ) -> Record:
        stamp, pid = message.stamp, _pid(message)
        return Record(
            event, data, log, stamp.time if stamp else "", pid, message.compile_id, stamp.attempt if stamp else 0,
            message.rank, payload, strings=strings or {}, epoch=self._epochs.of(log, pid, message.compile_id),
        )  # fmt: skip


def _pid(message: _Message) -> int:
    return message.stamp.pid if message.stamp else 0


def _gist(message: _Message) -> str:
    """What a message says, without the program's own lines behind it; empty for messages that are not read."""
    text = message.text.lstrip()
    if recompiling := _RECOMPILING.match(text):
        return "\n".join((recompiling[0].strip(), *(reason.partition("\n")[0].strip() for reason in _reasons(message))))
    if limit := _LIMIT.match(text):
        return limit[0].strip()
    if text.startswith(("GUARDS:", "TREE_GUARD_MANAGER:")):
        return "\n".join(line.strip() for line in message.lines if "+- " in line)
    return "\n".join(text.split("\n")[:2]) if _BREAK.match(text) else ""


def _reasons(message: _Message) -> list[str]:
    """The items of a list, each with the stack below it."""
    reasons: list[str] = []
    stack = False
    for line in message.lines:
        bare = line.strip()
        item = bare[2:] if bare.startswith("- ") else ""
        if item and not (item.startswith(" ") or item == "User stack trace:"):
            reasons += _parted(item) if message.tag == "__recompiles_verbose" else [item]
            stack = False
        elif reasons and bare and not bare.startswith("guard "):
            stack = stack or "User stack trace:" in (bare, item)
            if not stack and message.stamped < 2:
                break  # the program's own output
            reasons[-1] += "\n" + ("User stack trace:" if "User stack trace:" in (bare, item) else item or line)
    return reasons


def _parted(item: str) -> list[str]:
    """The guards of one entry, which ``recompiles_verbose`` lists together."""
    entry = _ENTRY.match(item)
    first, *others = _SPLIT.split(item)
    return [first, *(f"{entry[0] if entry else ''}{other}" for other in others)]


def _tree(lines: list[str]) -> str:
    """Guards as a tree; torch before 2.4 logs a list."""
    if any("+- " in line for line in lines):
        return "\n".join(lines)
    return "\n".join(f"| +- GUARD: {line.strip()}" for line in lines[1:] if line.strip())


def _at(data: dict[str, Any], comment: str) -> tuple[dict[str, Any], None, dict[int, str]]:
    """`data` with the user's line in `comment` as its stack."""
    match = _SLOC.match(comment.strip())
    if not match:
        return data, None, {}
    frame = {"filename": 0, "line": int(match["line"]), "name": match["name"], "loc": match["code"]}
    return {**data, "user_stack": [frame]}, None, {0: match["file"]}


def _raw_lines(file: Path) -> Iterator[str]:
    with opened(file) as binary:
        wide = binary.read(2) in (BOM_UTF16_LE, BOM_UTF16_BE)  # as PowerShell's > writes
    encoding = "utf-16" if wide else "utf-8-sig"
    with TextIOWrapper(opened(file), encoding=encoding, errors="replace") as lines:
        yield from iter(partial(lines.readline, _LONGEST_LINE), "")


def _messages(lines: Iterable[LogLine]) -> Iterator[_Message]:
    """Group `lines` into messages: lines whose stamps have one place, unless a new message begins, and those without.

    Processes that write to one terminal interleave their lines, so each has its own open message.
    """
    current = _Message()
    streams: dict[tuple[str, int | None], _Message] = {("", None): current}
    latest: dict[str, tuple[str, int | None]] = {}
    for line in lines:
        key = (line.stream, line.rank)
        if line.stamp is None and line.rank is None:
            key = (latest.get(line.stream) if line.stream else None) or (current.stream, current.rank)
        latest[key[0]] = key
        current = streams.setdefault(key, _Message(stream=key[0], rank=key[1]))
        goes_on = _goes_on(current, line.stamp)
        if current.stamped > 1 and line.stamp is None and goes_on and not _STARTS.match(line.text):
            continue  # torch stamps each line of this message, so this line is the program's own
        if not goes_on or (_STARTS.match(line.text) and current.lines):
            if current.lines:
                yield current
            current = streams[key] = _Message(line.stamp, *key)
            current.compile_id = line.stamp.compile_id if line.stamp else None
        current.add(line.text, stamped=line.stamp is not None)
    yield from (message for message in streams.values() if message.lines)


def _goes_on(message: _Message, stamp: Stamp | None) -> bool:
    """Whether a line with `stamp` may belong to `message`; older torch stamps the first line only."""
    return stamp is None or (message.stamp is not None and message.stamp.place == stamp.place)
