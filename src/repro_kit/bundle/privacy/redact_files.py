"""Redact a file by its format: JSON by value, a trace by record, Python by token; and shorten it."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from functools import cache
from itertools import pairwise
from pathlib import PurePath
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import orjson

from repro_kit.bundle.privacy.redact import Redacted, Redactor
from repro_kit.bundle.privacy.vocabulary import is_secret

T = TypeVar("T")
Redact = Callable[[str], str]

_SHORTEST_NUMBER = 6  # characters
_INDENTED = 2  # JSON of at least so many lines is written with indents


def redact_typed(value: T, redact: Redact) -> T:
    """`value` (dataclasses, enums, containers, scalars) redacted, except words of a fixed vocabulary."""
    redacted: Any = _typed(value, redact)
    return redacted  # type: ignore[no-any-return]


def _typed(value: Any, redact: Redact) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{name: _typed(getattr(value, name), redact) for name in _open_fields(type(value))})
    return value if isinstance(value, Enum) else _walked(value, redact, _typed)


@cache
def _open_fields(cls: type[Any]) -> tuple[str, ...]:
    """The fields of dataclass `cls` that hold more than words of a fixed vocabulary."""
    hints = get_type_hints(cls)
    return tuple(field.name for field in fields(cls) if not _is_fixed(hints[field.name]))


def _is_fixed(hint: Any) -> bool:
    """Whether a field of this type holds only words of a fixed vocabulary."""
    if get_origin(hint) is Literal:
        return True
    arguments = [argument for argument in get_args(hint) if argument is not type(None)]
    if arguments:
        return all(map(_is_fixed, arguments))
    return isinstance(hint, type) and issubclass(hint, Enum)


def redact_plain(value: Any, redact: Redact) -> Any:
    """A JSON `value` with every string redacted, including keys, and numbers that are secrets."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        written = repr(value)
        shown = redact(written) if len(written) >= _SHORTEST_NUMBER else written
        return value if shown == written else shown
    return _walked(value, redact, redact_plain)


def _walked(value: Any, redact: Redact, walk: Callable[[Any, Redact], Any]) -> Any:
    match value:
        case str():
            return redact(value)
        case dict():
            return {(redact(key) if isinstance(key, str) else key): walk(item, redact) for key, item in value.items()}
        case list():
            return [walk(item, redact) for item in value]
        case tuple() | set() | frozenset():
            return type(value)(walk(item, redact) for item in value)
    return value


def texts_in(value: Any) -> Iterator[str]:
    """The texts in a JSON `value` to learn from: keys, strings, and pairs whose key is a word for secrets.

    An option in a list of arguments and the item after it are such a pair, too.
    """
    match value:
        case str():
            yield value
        case dict():
            for key, item in value.items():
                yield str(key)
                yield from _beside_its_word(str(key), item)
                yield from texts_in(item)
        case list() | tuple():
            for option, item in pairwise(["", *value]):
                if isinstance(option, str) and option.startswith("-") and not str(item).startswith("-"):
                    yield from _beside_its_word(option.lstrip("-").replace("-", "_"), item)
                yield from texts_in(item)


def _beside_its_word(key: str, item: Any) -> Iterator[str]:
    if isinstance(item, str | int) and is_secret(key):
        yield f'{key}: "{item}"' if '"' not in str(item) else f"{key}: {item}"


def parsed(text: str) -> Any:
    """The object or array in JSON `text`; None for any other text."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def json_redacted(text: str, redactor: Redactor) -> Redacted | None:
    """JSON `text` redacted by value; None if `text` is not JSON."""
    data = parsed(text)
    if data is None:
        return None
    tokens: Counter[str] = Counter()

    def redact(value: str) -> str:
        redacted = redactor.redact(value)
        tokens.update(redacted.tokens)
        return redacted.text

    shown = redact_plain(data, redact)
    if shown == data:
        return Redacted(text, tokens)
    indent = 2 if text.count("\n") >= _INDENTED else None
    ends = text[len(text.rstrip()) :]
    return Redacted(json.dumps(shown, indent=indent, ensure_ascii=False) + ends, tokens)


_RECORD = re.compile(r"^[VDIWEC]\d{4} \S+ \d+ \S+\] \{")
_SUM = re.compile(r'("has_payload": ?")[0-9a-f]*(")')

#: Records about the compiler's timing, whose payload holds no model code.
_TIMES = ("chromium_event",)
#: Records that describe the model: inputs, sizes, guards and graph code.
_MODELS = re.compile(
    r"describe_\w+|create_\w*symbol\w*|symbolic_\w+|guard_\w+|propagate_\w+|expression_created|dump_file|missing_fake_kernel"
)


@dataclass(frozen=True)
class TraceRecord:
    """One record of a TORCH_TRACE file, or (without `data`) a line that is not a record."""

    head: str  # the text before the JSON
    data: str = ""  # the JSON
    payload: tuple[str, ...] = ()  # lines, without the tab before each

    @property
    def payload_text(self) -> str:
        """The payload as it was logged."""
        return "\n".join(self.payload)


def records_of(text: str) -> Iterator[TraceRecord]:
    """The records of a TORCH_TRACE file, in order. Joined by line ends, they are the file."""
    head = data = ""
    payload: list[str] | None = None  # None: no record is open
    for line in text.split("\n"):
        if line.startswith("\t") and payload is not None:
            payload.append(line[1:])
            continue
        if payload is not None:
            yield TraceRecord(head, data, tuple(payload))
        if _RECORD.match(line):
            start = line.index("] {") + 2
            head, data, payload = line[:start], line[start:], []
        else:
            yield TraceRecord(line)
            payload = None
    if payload is not None:
        yield TraceRecord(head, data, tuple(payload))


def blank_payload_sums(text: str) -> str:
    """`text` of a TORCH_TRACE file with every ``has_payload`` blank, because a checksum looks like a secret."""
    return "\n".join(
        _SUM.sub(r"\g<1>\g<2>", line, count=1) if _RECORD.match(line) else line for line in text.split("\n")
    )


def recompute_payload_sums(text: str) -> str:
    """`text` of a TORCH_TRACE file with every ``has_payload`` set to the md5 of its payload.

    A payload is the lines after its record, each behind one tab (torch/_logging/_internal.py, `trace_structured`).
    """
    lines = text.split("\n")
    head: int | None = None
    payload: list[str] = []
    for at, line in enumerate([*lines, ""]):
        if line.startswith("\t"):
            payload.append(line[1:])
            continue
        if head is not None:
            lines[head] = _with_sum(lines[head], payload)
        head, payload = (at, []) if _RECORD.match(line) else (None, [])
    return "\n".join(lines)


def _with_sum(record: str, payload: list[str]) -> str:
    digest = hashlib.md5("\n".join(payload).encode(), usedforsecurity=False).hexdigest()
    return _SUM.sub(rf"\g<1>{digest}\g<2>", record, count=1)


def without_model_code(text: str) -> str:
    """`text` of a TORCH_TRACE file without the model. What was compiled, when, how long and with what result stays.

    Only payloads of timings stay. Source lines in stacks are removed, and so are records of inputs and guards.
    """
    return "".join(line + "\n" for line in _without_code(text.split("\n")))


def _without_code(lines: list[str]) -> Iterator[str]:
    for line, payload in _records(lines):
        start = line.index("] {") + 2
        try:
            record = orjson.loads(line[start:])
        except orjson.JSONDecodeError:
            continue
        if any(_MODELS.fullmatch(key) for key in record):
            continue
        kept = _of_times(payload) if any(key in record for key in _TIMES) else []
        if not kept and record.pop("has_payload", None) is not None:
            record["payload_left_out"] = True
        yield line[:start] + orjson.dumps(_without_lines(record)).decode()
        yield from kept


def _records(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """The line of each record with the lines of its payload; other lines are left out."""
    head, payload = "", list[str]()
    for line in lines:
        if line.startswith("\t"):
            payload.append(line)
            continue
        if head:
            yield head, payload
        head, payload = line if _RECORD.match(line) else "", []
    if head:
        yield head, payload


def _of_times(payload: list[str]) -> list[str]:
    """A payload of timings, without arguments that may quote the model; empty if it cannot be read."""
    try:
        timings = orjson.loads("\n".join(line[1:] for line in payload))
    except orjson.JSONDecodeError:
        return []
    return ["\t" + orjson.dumps(_without_lines(timings)).decode()]


def _without_lines(value: object) -> object:
    """A record without source lines, and without fields that quote them or describe values of a graph."""
    if isinstance(value, dict):
        return {key: _without_lines(item) for key, item in value.items() if key not in _QUOTING}
    return [_without_lines(item) for item in value] if isinstance(value, list) else value


_QUOTING = {
    "loc", "fail_reason", "fail_user_frame_name", "recompile_reason", "restart_reasons", "dynamo_frame_locals",
    "exception_stack_trace", "recompile_user_contexts", "tensorify_float_failure", "inductor_provenance",
    "sizes", "graph_node_shapes",
}  # fmt: skip


_JSON = {".json", ".ipynb"}
_JSON_LINES = {".jsonl", ".ndjson"}


def learn_file(text: str, name: str, role: str, redactor: Redactor) -> None:
    """Let `redactor` learn the secrets in a file."""
    if role == "trace":
        redactor.learn("\n".join(dict.fromkeys(_texts_of_trace(text))))
        return
    data = [parsed(piece) for piece in _pieces(text, name)]
    if data and None not in data:
        redactor.learn("\n".join(dict.fromkeys(texts_in(data))))
    else:
        redactor.learn(text, name)


def redact_file(text: str, name: str, role: str, redactor: Redactor) -> Redacted:
    """The redacted text of a file."""
    if role == "trace":
        return _trace(text, redactor)
    pieces = [json_redacted(piece, redactor) for piece in _pieces(text, name)]
    whole = [piece for piece in pieces if piece is not None]
    if not whole or len(whole) < len(pieces):
        return redactor.redact(text, name)
    return _joined(whole)


def _pieces(text: str, name: str) -> list[str]:
    """The JSON documents in a file, by its name."""
    suffix = PurePath(name).suffix
    if suffix in _JSON_LINES:
        return [line for line in text.splitlines(keepends=True) if line.strip()]
    return [text] if suffix in _JSON else []


def _joined(pieces: list[Redacted]) -> Redacted:
    tokens: Counter[str] = Counter()
    for piece in pieces:
        tokens.update(piece.tokens)
    return Redacted("".join(piece.text for piece in pieces), tokens)


def _texts_of_trace(text: str) -> Iterator[str]:
    for record in records_of(text):
        for piece in (record.data, record.payload_text):
            data = parsed(piece)
            yield from [piece] if data is None else texts_in(data)
        yield record.head


def _trace(text: str, redactor: Redactor) -> Redacted:
    """A TORCH_TRACE file, redacted record by record; the checksums of payloads are recomputed."""
    tokens: Counter[str] = Counter()
    lines: list[str] = []
    for record in records_of(text):
        head = redactor.redact(record.head)
        data = json_redacted(record.data, redactor) or redactor.redact(record.data)
        payload = json_redacted(record.payload_text, redactor) or redactor.redact(record.payload_text)
        for piece in (head, data, payload):
            tokens.update(piece.tokens)
        lines.append(head.text + data.text)
        if record.payload:
            lines += ["\t" + line for line in payload.text.split("\n")]
    return Redacted(recompute_payload_sums("\n".join(lines)), tokens)


def middle_cut(text: str, most: int) -> tuple[str, int]:
    """`text` with at most about `most` bytes, cut at line ends, with a line that says so; and the bytes cut out."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return text, 0
    head = data[: most // 2]
    head = head[: head.rfind(b"\n") + 1] or head
    tail = data[len(data) - most // 2 :]
    tail = tail[tail.find(b"\n") + 1 :] or tail
    cut = len(data) - len(head) - len(tail)
    mark = f"[... {cut} bytes are cut out of the middle here ...]\n".encode()
    if not head.endswith(b"\n"):
        mark = b"\n" + mark
    return (head + mark + tail).decode("utf-8", "ignore"), cut


def share(sizes: Collection[int], most: int, each: int) -> int:
    """How many bytes each text of these `sizes` may keep, so that all together have at most `most` bytes."""
    low, high = 0, each
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if sum(min(size, middle) for size in sizes) <= most else (low, middle - 1)
    return low
