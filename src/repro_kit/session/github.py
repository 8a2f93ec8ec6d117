"""Send an issue or a comment with GitHub's own command `gh`. The callers ask the user first."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from repro_kit.errors import StageError
from repro_kit.runner import supervised

_SECONDS = 120


def send(words: Sequence[str], body: str, *, remedy: str) -> str:
    """Run ``gh WORDS`` with `body` on its stdin; returns the link that it prints. Raises StageError with `remedy`."""
    try:
        done = supervised.run(["gh", *words, "--body-file", "-"], input=body, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StageError(f"gh did not file the issue ({error}); {remedy}.") from error
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[0]
        raise StageError(f"gh did not file the issue ({why}); {remedy}.")
    return done.stdout.strip()
