"""The facts that the pipeline needs from a trace, gathered in one pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from repro_kit.trace.compiles import Compile, CompileFailure, Compiles
from repro_kit.trace.counts import Counting, Counts
from repro_kit.trace.reader import Problems, read
from repro_kit.trace.runnables import Runnable, Runnables
from repro_kit.trace.steps import OpenSteps
from repro_kit.trace.symbols import Symbols


@dataclass(frozen=True)
class TraceSummary:
    """The compiles in order, the failures, the graphs as scripts, and the step that was left open."""

    compiles: tuple[Compile, ...] = ()
    failures: tuple[CompileFailure, ...] = ()
    runnables: tuple[Runnable, ...] = ()
    open_step: str | None = None
    open_steps: dict[int, str] = field(default_factory=dict)  # by process
    problems: Problems = field(default_factory=Problems)
    counts: Counts = field(default_factory=lambda: Counting().counts())
    symbols: int = 0  # number of symbolic sizes

    @property
    def static(self) -> bool:
        """Whether there were compiles, but no symbolic sizes."""
        return bool(self.compiles) and not self.symbols

    @property
    def compile_ids(self) -> tuple[str, ...]:
        """The compile ids in order; ranks and forked processes may repeat an id."""
        return tuple(compile_.compile_id for compile_ in self.compiles)


def summarise(path: str | Path) -> TraceSummary:
    """The summary of the trace at `path` (a log, or a directory of logs); empty if there is none."""
    if not Path(path).exists():
        return TraceSummary()
    compiles, runnables, steps, counting, symbols = Compiles(), Runnables(), OpenSteps(), Counting(), Symbols()
    reader = read(path)
    for record in reader:
        for insight in (compiles, runnables, steps, counting, symbols):
            insight.see(record)
    step = steps.open()
    return TraceSummary(
        tuple(compiles.all()),
        tuple(compiles.failures()),
        tuple(runnables.scripts),
        str(step) if step else None,
        {pid: str(of_process) for pid, of_process in steps.by_process().items()},
        reader.problems,
        counting.counts(),
        symbols.made,
    )
