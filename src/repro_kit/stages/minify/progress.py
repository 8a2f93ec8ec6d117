"""How long a reduction may take, and how it is shown and logged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from repro_kit.errors import UsageError
from repro_kit.failure.failure import Failure
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature
from repro_kit.reduce import Event, Result
from repro_kit.ui import Ui


def shown(ui: Ui, noun: str) -> Callable[[Event], None]:
    """A listener that shows the size at first and now. `noun`: what is counted (operator, statement)."""
    first: int | None = None

    def show(event: Event) -> None:
        nonlocal first
        first = event.statements if first is None else first
        ui.progress(f"making it smaller: {_work(first, event.statements, noun, event.queries)}")

    return show


def ended(result: Result[Any], failure: Failure | None, noun: str) -> str:
    """How a reduction ended. `failure`: that of its result in a fresh interpreter."""
    words = _work(result.statements_before, result.statements_after, noun, result.queries)
    words += "; nothing more can be removed" if result.neighbours.minimal else ""
    words += "" if result.stopped == "fixpoint" else f"; stopped by its {result.stopped} (--{result.stopped})"
    return words + ("" if failure else "; the result was NOT seen to fail in a fresh interpreter")


def _work(before: int, after: int, noun: str, tries: int) -> str:
    return f"{before} → {after} {noun}{'s' * (after != 1)}, {tries} {'try' if tries == 1 else 'tries'}"


Listener = Callable[[Event], None]


@contextmanager
def events_to(path: str | None, also: Listener) -> Iterator[Listener]:
    """A listener that passes events to `also`, and appends each event to the file `path`, if given.

    A line has ``{"time", "kind", "pass", "statements", "queries"}``, with the time in seconds since the epoch. A query
    adds ``"outcome"``, ``"seconds"``, ``"note"`` and ``"size"`` (the statements of what it judged); the end adds
    ``"stopped"``.
    Raises ReproKitError when the file cannot be written.
    """
    if path is None:
        yield also
        return
    try:
        file = Path(path).open("ab", buffering=0)  # noqa: SIM115 - only an error of open is the user's mistake
    except OSError as error:
        raise UsageError(f"Cannot write the events to {path}: {error.strerror}.") from error
    with file:

        def listen(event: Event) -> None:
            also(event)
            file.write(orjson.dumps(_line(event), option=orjson.OPT_APPEND_NEWLINE))

        yield listen


def _line(event: Event) -> dict[str, object]:
    line: dict[str, object] = {
        "time": round(time.time(), 3),
        "kind": event.kind,
        "pass": event.name,
        "statements": event.statements,
        "queries": event.queries,
    }
    if event.answer is not None:
        answer = event.answer
        line |= {"outcome": answer.word, "seconds": answer.seconds, "note": answer.note, "size": event.size}
    if event.stopped is not None:
        line["stopped"] = event.stopped
    return line


_PROGRAM = 1800.0
_OF_SLOW = {Kind.TIMEOUT: 150.0, Kind.COMPILE_GROWTH: 60.0}  # of a compile that does not end
_QUERIES = 8
_SCRIPT = 300.0
_SCRIPT_OF_HANG = 600.0  # each script that is accepted takes the limit of a hang


def deadline_of_program(signature: Signature, seconds: float) -> float:
    """A hang gets less time: each program that still hangs costs half a minute. Five of them are enough to replace
    stored values, and to drop most of what the recipe has.

    Ranks that wait for each other are noticed sooner, and get the usual time. Compile time that grows too fast gets
    less time as well, since a query makes several compiles: time for some queries of `seconds`.
    """
    kind = signature.kind
    if kind not in _OF_SLOW:
        return _PROGRAM
    return max(_OF_SLOW[kind], _QUERIES * seconds if kind is Kind.COMPILE_GROWTH else 0.0)


def deadline_of_script(kind: Kind | None) -> float:
    """The time for the reduction of a script that fails by `kind`."""
    return _SCRIPT_OF_HANG if kind and kind.policy.hangs else _SCRIPT
