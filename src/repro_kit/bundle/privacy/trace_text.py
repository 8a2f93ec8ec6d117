"""Change the text of a structured trace and keep its payloads and checksums consistent."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

import orjson

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
