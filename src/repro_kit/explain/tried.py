"""The result of trying the suggestions."""

from __future__ import annotations

from dataclasses import dataclass

from repro_kit.explain.judge import Trial
from repro_kit.model.measure.measured_run import MeasuredRun


@dataclass(frozen=True)
class Tried:
    """Two runs of the unchanged script, with empty (`cold`) and then filled caches (`warm`), and the trials."""

    cold: MeasuredRun
    warm: MeasuredRun
    trials: tuple[Trial, ...]
    further: str = ""  # torch's log about the first specialization
