"""What trying the suggestions has shown."""

from __future__ import annotations

from dataclasses import dataclass

from repro_kit.explain.judge import Trial
from repro_kit.model.measure.measured_run import MeasuredRun


@dataclass(frozen=True)
class Tried:
    """The script as it is (`cold`), again with the caches and the profile that this left (`warm`), and the trials."""

    cold: MeasuredRun
    warm: MeasuredRun
    trials: tuple[Trial, ...]
    further: str = ""  # torch's word on the first specialization
