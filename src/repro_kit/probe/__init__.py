"""The directory for the PYTHONPATH of the user's interpreter, and the texts in it that other programs hold too."""

from pathlib import Path
from typing import Literal


def embedded(name: Literal["growth", "interruptions", "originals", "own_operators", "promises"]) -> str:
    """The text of a module of `repro_probe.embedded`, to be written into `repro.py` or into the setup of a cell."""
    return (Path(__file__).parent / "repro_probe" / "embedded" / f"{name}.py").read_text(encoding="utf-8")
