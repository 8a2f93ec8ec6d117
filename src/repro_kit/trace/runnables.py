"""The `fx_graph_runnable` scripts in a trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from repro_kit.trace.insight import ask
from repro_kit.trace.record import Record
from repro_kit.trace.repair import bodies_in, repaired


@dataclass(frozen=True)
class Runnable:
    """A script that Inductor wrote for a graph before compiling it (after AOTAutograd)."""

    compile_id: str
    text: str
    rank: int | None = None
    attempt: int = 0
    log: str = ""  # name of the log that holds it


@dataclass
class Runnables:
    """All scripts in order. Forward and backward of a graph share a compile id; the forward comes first."""

    scripts: list[Runnable] = field(default_factory=list)

    def see(self, record: Record) -> None:
        """Keep an `fx_graph_runnable` artifact; repair it (`repair.py`) when its graph shows the bodies."""
        if record.name == "fx_graph_runnable" and record.payload and record.intact:
            text, _ = repaired(record.payload, {})
            self.scripts.append(Runnable(record.compile_id or "-", text, record.rank, record.attempt, record.file))
        elif record.name == "before_post_grad_graph" and record.payload:
            self._mend(record.compile_id or "-", record.rank, record.payload)

    def _mend(self, compile_id: str, rank: int | None, graph: str) -> None:
        for at in reversed(range(len(self.scripts))):
            runnable = self.scripts[at]
            if (runnable.compile_id, runnable.rank) == (compile_id, rank):
                self.scripts[at] = replace(runnable, text=repaired(runnable.text, bodies_in(graph))[0])
                return


def artifacts(records: Iterable[Record]) -> list[Runnable]:
    """Every `fx_graph_runnable` of a trace, in order."""
    return ask(Runnables(), records).scripts
