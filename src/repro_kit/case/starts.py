"""How often the user's command was started for a case, and why: a line a start, written before it begins."""

from __future__ import annotations

import time
from dataclasses import dataclass

import orjson

from repro_kit.case.case import Case
from repro_kit.model.serialize import from_data, to_data

_STARTS = "starts.jsonl"


@dataclass(frozen=True)
class Start:
    """One start of the user's command, a line of `starts.jsonl`: when (seconds since the epoch), and why."""

    time: float
    why: str


def note_start(case: Case, why: str) -> None:
    """Note a start that is about to be made."""
    line = orjson.dumps(to_data(Start(round(time.time(), 3), why)), option=orjson.OPT_APPEND_NEWLINE)
    with (case.path / _STARTS).open("ab", buffering=0) as file:
        file.write(line)


def starts(case: Case) -> tuple[Start, ...]:
    """The starts so far; damaged lines are left out."""
    try:
        lines = (case.path / _STARTS).read_bytes().splitlines()
    except FileNotFoundError:
        return ()
    return tuple(start for line in lines if (start := _start(line)) is not None)


def _start(line: bytes) -> Start | None:
    try:
        return from_data(orjson.loads(line), Start)
    except (ValueError, TypeError):
        return None
