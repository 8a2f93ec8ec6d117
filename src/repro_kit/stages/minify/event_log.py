"""The events of a reduction as JSON lines, to watch or plot."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from repro_kit.errors import UsageError
from repro_kit.reduce import Event

Listener = Callable[[Event], None]


@contextmanager
def events_to(path: str | None, also: Listener) -> Iterator[Listener]:
    """A listener that passes events to `also`, and appends each event to the file `path`, if given.

    A line has ``{"time", "kind", "pass", "statements", "queries"}``, with the time in seconds since the epoch. A query
    adds ``"outcome"``, ``"seconds"`` and ``"note"``; the end adds ``"stopped"``.
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
        line |= {"outcome": answer.word, "seconds": answer.seconds, "note": answer.note}
    if event.stopped is not None:
        line["stopped"] = event.stopped
    return line
