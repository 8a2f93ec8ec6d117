"""The directory for the PYTHONPATH of the user's interpreter, and the texts in it that other programs hold too."""

from pathlib import Path
from typing import Literal

_SETUP_FILE = "repro_setup"


def embedded(name: Literal["growth", "interruptions", "originals", "own_operators", "own_state", "promises"]) -> str:
    """The text of a module of `repro_probe.embedded`, to be written into `repro.py` or into the setup of a cell."""
    return (Path(__file__).parent / "repro_probe" / "embedded" / f"{name}.py").read_text(encoding="utf-8")


def setup_of(module: Literal["interruptions", "originals", "own_operators", "own_state", "promises"], call: str) -> str:
    """Python code that runs a module of the probe's `embedded` package, and then `call`.

    It runs under a file name of its own, which distinguishes its frames from the program's.
    """
    code = embedded(module) + f"\n\n{call}\n"
    names = {"__name__": _SETUP_FILE, "__file__": _SETUP_FILE}
    return f"exec(compile({code!r}, {_SETUP_FILE!r}, 'exec'), {names!r})\n"
