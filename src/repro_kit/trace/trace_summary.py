"""What the pipeline wants to know of a trace, from one pass over it."""

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
    """Compiles in order, those that failed, the graphs as scripts, and the step that was left open."""

    compiles: tuple[Compile, ...] = ()
    failures: tuple[CompileFailure, ...] = ()
    runnables: tuple[Runnable, ...] = ()
    open_step: str | None = None
    problems: Problems = field(default_factory=Problems)
    counts: Counts = field(default_factory=lambda: Counting().counts())
    symbols: int = 0  # symbolic sizes that were made

    @property
    def static(self) -> bool:
        """Whether there were compiles, and none had a symbolic size."""
        return bool(self.compiles) and not self.symbols

    @property
    def compile_ids(self) -> tuple[str, ...]:
        """The ids seen, in order; a rank or a forked process repeats them."""
        return tuple(compile_.compile_id for compile_ in self.compiles)


def summarise(path: str | Path) -> TraceSummary:
    """The summary of the trace at `path` (a log, or a directory of logs); empty when there is none."""
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
        tuple(runnables.found),
        str(step) if step else None,
        reader.problems,
        counting.counts(),
        symbols.made,
    )
