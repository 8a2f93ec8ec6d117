"""What an automation expects of an ablation: ``layer=inductor``, ``fails=inductor dynamic=True`` …"""

from __future__ import annotations

from dataclasses import dataclass

from repro_kit.model.ablation.cell import Ablation
from repro_kit.model.ablation.words import word
from repro_kit.model.failure.failure import Layer
from repro_kit.model.run_outcome import RunOutcome

KEYS = ("layer", "cause", "fails", "passes")


@dataclass(frozen=True)
class Expectation:
    """`key` is one of `KEYS`; for the last two `value` is the name of a cell."""

    key: str
    value: str

    def unmet(self, ablation: Ablation) -> str:
        """Why it is not met, in one sentence; empty when it is."""
        match self.key:
            case "layer":
                return _other("layer", self.value, str(ablation.layer) if ablation.layer else "none")
            case "cause":
                return _other("cause", self.value, ablation.cause or "none")
        cell = next((it for it in ablation.cells if it.name == self.value), None)
        if cell is None:
            return f"Expected that cell {self.value!r} {self.key}; the ablation has no such cell."
        met = cell.same if self.key == "fails" else cell.outcome is RunOutcome.PASSES
        return "" if met else f"Expected that cell {self.value!r} {self.key}; it: {word(cell)}."


def parse_expectation(text: str) -> Expectation:
    """``KEY=VALUE``; raises ValueError with a sentence."""
    key, given, value = text.partition("=")
    if not given or not value or key not in KEYS:
        raise ValueError(f"{text!r} is no expectation: give one of {', '.join(f'{key}=VALUE' for key in KEYS)}.")
    layers = [*map(str, Layer), "none"]
    if key == "layer" and value not in layers:
        raise ValueError(f"There is no layer {value!r}; the layers are {', '.join(layers)}.")
    return Expectation(key, value)


def _other(what: str, expected: str, found: str) -> str:
    return "" if found == expected else f"Expected {what} {expected}, found {found}."
