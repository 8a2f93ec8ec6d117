"""An insight: one question asked of a trace, answered in one pass over its records.

To add one, write a module with a class that has `see`, and whatever it found; `summary.py` shows how several of them
share a pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from repro_kit.trace.record import Record


class Insight(Protocol):
    """Sees every record once, in order."""

    def see(self, record: Record) -> None:
        """Take from `record` what matters."""


I = TypeVar("I", bound=Insight)  # noqa: E741


def ask(insight: I, records: Iterable[Record]) -> I:
    """Show all `records` to `insight`, and return it."""
    for record in records:
        insight.see(record)
    return insight
