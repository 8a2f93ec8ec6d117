"""A reduction in one line: while it runs, and when it has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from repro_kit.model.failure.failure import Failure
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
