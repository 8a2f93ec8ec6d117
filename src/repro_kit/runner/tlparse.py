"""Run tlparse, if it is installed, to make its HTML pages of a trace."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from repro_kit.errors import StageError
from repro_kit.runner import supervised

_SECONDS = 600.0


def tlparse() -> str | None:
    """Return the path of tlparse: beside our own interpreter (the extra ``repro-kit[tlparse]``), else on PATH."""
    return shutil.which("tlparse", path=str(Path(sys.executable).parent)) or shutil.which("tlparse")


def write_html(program: str, logs: Sequence[Path], directory: Path) -> None:
    """Let `program` write its pages of `logs` to `directory`; several logs get a subdirectory each.

    Raises ReproKitError when `program` fails.
    """
    for log in logs:
        pages = directory if len(logs) == 1 else directory / log.stem
        pages.parent.mkdir(parents=True, exist_ok=True)
        argv = [program, str(log), "-o", str(pages), "--overwrite", "--no-browser"]
        try:
            ran = supervised.run(argv, timeout=_SECONDS)
        except OSError as error:
            raise StageError(f"{program} cannot be started: {error.strerror}.") from error
        except subprocess.TimeoutExpired:
            raise StageError(f"tlparse did not finish {log} in {_SECONDS:.0f} s.") from None
        if ran.returncode:
            last = (ran.stderr.strip() or "no error message").rsplit("\n", 1)[-1]
            raise StageError(f"tlparse could not read {log}: {last}.")
