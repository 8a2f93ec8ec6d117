"""What a script or a CI job expects of an ablation: ``layer=inductor``, ``fails=inductor dynamic=True``, …"""

from __future__ import annotations

from dataclasses import dataclass

from repro_kit.model.ablation.cell import Ablation
from repro_kit.model.ablation.words import word
from repro_kit.model.failure.failure import Layer
from repro_kit.model.run_outcome import RunOutcome

KEYS = ("layer", "cause", "fails", "passes")


@dataclass(frozen=True)
class Expectation:
    """One expectation. `key` is one of `KEYS`; for ``fails`` and ``passes``, `value` is the name of a cell."""

    key: str
    value: str

    def unmet(self, ablation: Ablation) -> str:
        """Why the ablation does not meet the expectation, in one sentence; "" when it does."""
        match self.key:
            case "layer":
                return _other("layer", self.value, str(ablation.layer) if ablation.layer else "none")
            case "cause":
                return _other("cause", self.value, ablation.cause or "none")
        cell = next((candidate for candidate in ablation.cells if candidate.name == self.value), None)
        if cell is None:
            return f"Expected that cell {self.value!r} {self.key}; the ablation has no such cell."
        met = cell.same if self.key == "fails" else cell.outcome is RunOutcome.PASSES
        return "" if met else f"Expected that cell {self.value!r} {self.key}; its verdict is: {word(cell)}."


def parse_expectation(text: str) -> Expectation:
    """The expectation that ``KEY=VALUE`` states. Raises ValueError for any other text."""
    key, given, value = text.partition("=")
    if not given or not value or key not in KEYS:
        raise ValueError(f"{text!r} is not an expectation: give one of {', '.join(f'{key}=VALUE' for key in KEYS)}.")
    layers = [*map(str, Layer), "none"]
    if key == "layer" and value not in layers:
        raise ValueError(f"There is no layer {value!r}; the layers are {', '.join(layers)}.")
    return Expectation(key, value)


def _other(name: str, expected: str, actual: str) -> str:
    return "" if actual == expected else f"Expected {name} {expected}, found {actual}."
