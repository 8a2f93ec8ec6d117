"""What the probe measured of compiled calls in a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from repro_kit.model.measure.measured_run import MeasuredCall
from repro_kit.model.serialize import from_data, loads


@dataclass(frozen=True)
class _Process:
    rank: str | None
    started: float
    calls: tuple[MeasuredCall, ...] = ()
    left_out: int = 0


def read_calls(directory: Path) -> tuple[MeasuredCall, ...]:
    """The calls that were measured, by rank and start of their process."""
    found = [from_data(loads(path.read_bytes()), _Process) for path in directory.glob("timeline-*.json")]
    found.sort(key=lambda process: (int(process.rank or 0), process.started))
    return tuple(call for process in found for call in process.calls)
