"""tlparse, where it is installed: the HTML that PyTorch's own tool makes of a trace, all of its files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from repro_kit.errors import StageError
from repro_kit.runner import kept

_SECONDS = 600.0


def tlparse() -> str | None:
    """The program: beside our own interpreter (the extra ``repro-kit[tlparse]``), else on PATH."""
    return shutil.which("tlparse", path=str(Path(sys.executable).parent)) or shutil.which("tlparse")


def write_html(program: str, logs: Sequence[Path], directory: Path) -> None:
    """Let `program` make its pages of `logs` below `directory`, those of several logs in a directory each.

    Raises ReproKitError when it cannot.
    """
    for log in logs:
        pages = directory if len(logs) == 1 else directory / log.stem
        pages.parent.mkdir(parents=True, exist_ok=True)
        argv = [program, str(log), "-o", str(pages), "--overwrite", "--no-browser"]
        try:
            ran = kept.run(argv, timeout=_SECONDS)
        except OSError as error:
            raise StageError(f"{program} cannot be started: {error.strerror}.") from error
        except subprocess.TimeoutExpired:
            raise StageError(f"tlparse did not come to an end with {log} in {_SECONDS:.0f} s.") from None
        if ran.returncode:
            last = (ran.stderr.strip() or "it says nothing").rsplit("\n", 1)[-1]
            raise StageError(f"tlparse could not read {log}: {last}.")
