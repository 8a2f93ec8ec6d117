"""An insight: one question about a trace, answered in one pass over its records.

To add one, write a module with a class that has `see` and keeps what it finds; `trace_summary.py` shows how several
insights share a pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from repro_kit.trace.record import Record


class Insight(Protocol):
    """An object that sees every record once, in order."""

    def see(self, record: Record) -> None:
        """Use the relevant parts of `record`."""


I = TypeVar("I", bound=Insight)  # noqa: E741


def ask(insight: I, records: Iterable[Record]) -> I:
    """Show all `records` to `insight`, and return it."""
    for record in records:
        insight.see(record)
    return insight
