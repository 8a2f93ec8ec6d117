"""The `fx_graph_runnable` scripts in a trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from repro_kit.trace.insight import ask
from repro_kit.trace.record import Record


@dataclass(frozen=True)
class Runnable:
    """A script that Inductor wrote of a graph it was about to compile (after AOTAutograd)."""

    compile_id: str
    text: str
    rank: int | None = None
    attempt: int = 0


@dataclass
class Runnables:
    """All of them, in order: forward and backward of one graph share a compile id, the forward comes first."""

    found: list[Runnable] = field(default_factory=list)

    def see(self, record: Record) -> None:
        """Keep the payload of an `fx_graph_runnable` artifact."""
        if record.name == "fx_graph_runnable" and record.payload and record.intact:
            self.found.append(Runnable(record.compile_id or "-", record.payload, record.rank, record.attempt))


def artifacts(records: Iterable[Record]) -> list[Runnable]:
    """Every `fx_graph_runnable` of a trace, in order."""
    return ask(Runnables(), records).found
