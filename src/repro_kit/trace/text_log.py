"""Read plain ``TORCH_LOGS`` text, as pasted into issues, into the records of a structured trace.

Reads graph breaks, recompiles, guards, symbols and the recompile limit, in the current format, in that of torch 2.0 to
2.3 (``[2023-11-06 14:54:45,922] torch._dynamo.guards.__recompiles: [DEBUG] …``), and without prefixes. A text has no
times, graphs or inputs, so the insights lack these.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import orjson

from repro_kit.trace.reader import opened
from repro_kit.trace.record import Record

_PREFIX = re.compile(
    r"^(?:\[(?:rank|default)(?P<rank>\d{1,9})\]:? ?)?"
    r"(?:(?P<new>[VDIWEC](?P<time>\d{4} \d\d:\d\d:\d\d\.\d+) (?P<pid>\d{1,18}) (?P<where>\S+:\d+)\] ?)"
    r"|(?P<old>\[\d{4}-\d\d-\d\d (?P<clock>\d\d:\d\d:\d\d[,.]\d+)\] ?))?"
)
_COMPILE = re.compile(r"^\[(?P<id>(?:!\d+/)?\d+/\d+)(?:_(?P<attempt>\d{1,9}))?\] ?")
_TAG = re.compile(r"^\[(?P<tag>__\w+)\] ?")
_LOGGER = re.compile(r"^torch[\w.]*?(?:\.(?P<tag>__\w+))?: \[[A-Z]+\] ?")
_STARTS = re.compile(
    r"^\s*(?:Graph break|Recompiling function|(?:torch\._dynamo|torchdynamo) hit config\.|GUARDS:|Python shape guard"
    r"|create_symbol |create_unbacked|eval |set_replacement |torchdynamo start compiling|Step 1: )"
)
#: Does not match the warning before a graph break.
_BREAK = re.compile(
    r"Graph break(?: in user code at|: (?!from user code at)|: from user code at.*(?:Traceback|Unsupported))", re.S
)
_RECOMPILING = re.compile(r"Recompiling function (?P<name>\S+) in (?P<file>.+?):(?P<line>\d{1,9})\s*(?:\n|$)")
_LIMIT = re.compile(
    r"hit config\.(?P<name>\w+) \((?P<n>\d{1,9})\)\s+function: '(?P<function>.+?)' \((?P<file>.+?):(?P<line>\d{1,9})\)"
    r"(?:\s+last reason: (?P<reason>.*))?"
)
_ENTRY = re.compile(r"^(?P<frame>(?:!\d+/)?\d+)/(?P<at>\d{1,9}): ")
_SYMBOL = re.compile(
    r"^create_symbol (?P<symbol>\w+) = (?P<val>\S+) for (?P<source>.+?) (?P<vr>\[[^\]]*\]) ?(?P<rest>.*)", re.S
)
_REPLACED = re.compile(r"^set_replacement (?P<symbol>\w+) = (?P<value>-?[\d.]+) \((?P<reason>[^)]*)\)")
_START = re.compile(r"^torchdynamo start compiling (?P<name>\S+) (?P<file>[^\n]+?):(?P<line>\d{1,9})")
_SLOC = re.compile(r"^(?P<code>.*?)  # (?P<file>\S+):(?P<line>\d{1,9}) in (?P<name>\S+)")
_LONGEST_LINE = 1 << 20  # characters; the rest counts as the next line
_LARGEST = 16 << 20  # characters of a message
_LONGEST = 100_000  # lines of a message; a program's own output after it has no prefix


@dataclass
class _Message:
    """Lines that were logged together."""

    key: tuple[str, ...] | None = None  # common part of their prefixes; None without prefixes
    lines: list[str] = field(default_factory=list)
    compile_id: str | None = None
    attempt: int = 0
    rank: int | None = None
    time: str = ""
    pid: int = 0
    size: int = 0  # characters in `lines`

    @property
    def text(self) -> str:
        return "\n".join(self.lines).strip("\n")


@dataclass
class TextReader:
    """Iterates over the records in a text; `events` counts them."""

    path: Path
    events: Counter[str] = field(default_factory=Counter)
    _counts: Counter[str] = field(default_factory=Counter)  # number of compiles of a function without ids
    _reasoned: set[tuple[str, str | None]] = field(default_factory=set)  # compiles with known reasons
    _symbols: dict[tuple[str | None, str], str] = field(default_factory=dict)  # the source of a symbol

    def __iter__(self) -> Iterator[Record]:
        files = sorted(path for path in self.path.iterdir() if path.is_file()) if self.path.is_dir() else [self.path]
        for file in files:
            with TextIOWrapper(opened(file), encoding="utf-8", errors="replace") as lines:
                for message in _messages(iter(partial(lines.readline, _LONGEST_LINE), "")):
                    for record in self._records(message, file.name):
                        self.events[record.event] += 1
                        yield record

    def _records(self, message: _Message, log: str) -> Iterator[Record]:
        text = message.text
        stripped = text.lstrip()
        if _BREAK.match(stripped):
            yield self._record(message, log, "artifact", {"name": "dynamo_graph_break_reason"}, text)
        elif recompiling := _RECOMPILING.search(text):
            yield from self._recompiled(message, log, recompiling)
        elif limit := _LIMIT.search(text):
            yield from self._limit(message, log, limit)
        elif stripped.startswith(("GUARDS:", "TREE_GUARD_MANAGER:")):
            yield self._record(message, log, "dynamo_cpp_guards_str", {}, _tree(message.lines))
        elif started := _START.match(stripped):
            yield self._started(message, log, started)
        elif symbol := _SYMBOL.match(stripped):
            yield self._symbol(message, log, symbol)
        elif replaced := _REPLACED.match(stripped):
            yield self._replaced(message, log, replaced, text)

    def _recompiled(self, message: _Message, log: str, match: re.Match[str]) -> Iterator[Record]:
        reasons = _reasons(message.lines)
        if message.compile_id is None:
            message.compile_id = self._id(match["name"], reasons)
        self._reasoned.add((log, message.compile_id))
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
        if message.compile_id is None:
            message.compile_id = self._id(match["function"], [match["reason"] or ""])
        yield self._started(message, log, match, match["function"])
        if match["reason"] and (log, message.compile_id) not in self._reasoned:
            yield self._record(message, log, "artifact", {"name": "recompile_reasons"}, match["reason"])
        reason = f"{match['name']} reached, currently set to {match['n']}"
        metrics = {"compile_id": message.compile_id, "fail_type": "RecompileLimitExceeded", "fail_reason": reason}
        yield self._record(message, log, "compilation_metrics", metrics)

    def _started(self, message: _Message, log: str, match: re.Match[str], name: str | None = None) -> Record:
        frame = {"filename": 0, "line": int(match["line"]), "name": name or match["name"]}
        return self._record(message, log, "dynamo_start", {"stack": [frame]}, strings={0: match["file"]})

    def _symbol(self, message: _Message, log: str, match: re.Match[str]) -> Record:
        self._symbols[message.compile_id, match["symbol"]] = match["source"]
        data: dict[str, Any] = {key: match[key] for key in ("symbol", "val", "source", "vr")}
        return self._record(message, log, "create_symbol", *_at(data, match["rest"]))

    def _replaced(self, message: _Message, log: str, match: re.Match[str], text: str) -> Record:
        source = self._symbols.get((message.compile_id, match["symbol"]))
        data: dict[str, Any] = {key: match[key] for key in ("symbol", "value", "reason")}
        data["sources"] = [source] if source else []
        data, payload, strings = _at(data, text[text.index(")") + 1 :])
        return self._record(message, log, "symbolic_shape_specialization", data, payload, strings)

    def _record(
        self,
        message: _Message,
        log: str,
        event: str,
        data: Any,
        payload: str | None = None,
        strings: dict[int, str] | None = None,
    ) -> Record:
        return Record(
            event, data, log, message.time, message.pid, message.compile_id, message.attempt, message.rank, payload,
            strings=strings or {},
        )  # fmt: skip


def _reasons(lines: Iterable[str]) -> list[str]:
    """The items of a list, each with the stack below it."""
    reasons: list[str] = []
    for line in lines:
        bare = line.strip()
        if bare.startswith("- "):
            reasons.append(bare[2:])
        elif reasons and bare:
            reasons[-1] += "\n" + (bare if bare == "User stack trace:" else line)
    return reasons


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


def _messages(lines: Iterable[str]) -> Iterator[_Message]:
    """Group `lines` into messages: lines with equal prefixes, unless a new message begins, and lines without prefixes.

    Ranks that write to one terminal interleave their lines, so each rank has its own open message.
    """
    current = _Message()
    streams: dict[str, _Message] = {"": current}
    for raw in lines:
        line = raw.rstrip("\n")
        match = _PREFIX.match(line)
        assert match
        key, rest = _stripped(match, line[match.end() :])
        if key is not None:
            current = streams.setdefault(key[0], _Message())
        goes_on = key in (current.key, None)  # older torch prefixes the first line only
        if not goes_on or (_STARTS.match(rest) and current.lines):
            if current.lines:
                yield current
            stream = key[0] if key is not None else ""
            current = streams[stream] = _Message(key, [], *_context(match, line[match.end() :]))
        if len(current.lines) < _LONGEST and current.size < _LARGEST:
            current.lines.append(rest)
            current.size += len(rest)
    yield from (message for message in streams.values() if message.lines)


def _stripped(prefix: re.Match[str], rest: str) -> tuple[tuple[str, ...] | None, str]:
    """The identity of a message by its prefix, and the line without the prefix."""
    if not (prefix["new"] or prefix["old"]):
        return (None if prefix["rank"] is None else (prefix["rank"],)), rest
    compiled = _COMPILE.match(rest)
    rest = rest[compiled.end() :] if compiled else rest
    names = ""
    for pattern in (_TAG, _LOGGER):
        tag = pattern.match(rest)
        if tag:
            rest, names = rest[tag.end() :], tag["tag"] or names
    shown = compiled["id"] if compiled else ""
    if names == "__guards":  # different lines of torch log the head of a list and its items
        return (prefix["rank"] or "", names, shown), rest
    return (prefix["rank"] or "", prefix["where"] or prefix["clock"] or "", prefix["time"] or "", shown), rest


def _context(prefix: re.Match[str], rest: str) -> tuple[str | None, int, int | None, str, int]:
    compiled = _COMPILE.match(rest)
    return (
        compiled["id"] if compiled else None,
        int(compiled["attempt"] or 0) if compiled else 0,
        int(prefix["rank"]) if prefix["rank"] else None,
        prefix["time"] or "",
        int(prefix["pid"] or 0),
    )
