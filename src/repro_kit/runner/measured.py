"""Read the compiled calls that the probe timed in a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from repro_kit.errors import StageError
from repro_kit.model.measure.measured_run import MeasuredCall
from repro_kit.probe.repro_probe.protocol.findings import TIMELINE
from repro_kit.runner.probe_files import read_files


@dataclass(frozen=True)
class _ProcessTimeline:
    rank: str | None
    started: float
    calls: tuple[MeasuredCall, ...] = ()
    left_out: int = 0

    @property
    def rank_number(self) -> int:
        """The rank as a number; 0 if RANK is not set or is no number."""
        return int(self.rank) if self.rank and self.rank.isdecimal() else 0


def read_calls(directory: Path) -> tuple[MeasuredCall, ...]:
    """Return the timed calls, ordered by rank and by start of their process. Raises StageError for a damaged file."""
    problems: list[str] = []
    processes = [process for _, process in read_files(directory, TIMELINE, _ProcessTimeline, problems)]
    if problems:
        raise StageError(f"The probe's timings in {directory} are damaged ({problems[0]}); run the command again.")
    processes.sort(key=lambda process: (process.rank_number, process.started))
    return tuple(call for process in processes for call in process.calls)
