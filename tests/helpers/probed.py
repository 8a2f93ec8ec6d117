"""Run a script under the probe, as observe and the cells do."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from repro_kit.runner.read_findings import read_findings
from repro_kit.runner.subject_start import probe_environment
from repro_kit.runner.supervised import launch

_SECONDS = 240


def run_probed(
    place: Path,
    code: str,
    mode: str,
    options: Mapping[str, object],
    status: int = 0,
    variables: Mapping[str, str] | None = None,
) -> str:
    """What the script prints. It must end with `status`, and the probe must have no problem.

    `variables` are added to the environment. The findings are in ``place/probe``, the script is ``place/script.py``.
    """
    script = place / "script.py"
    script.write_text(code)
    ended = launch(
        [sys.executable, str(script)],
        cwd=place,
        env=probe_environment({**os.environ, **(variables or {})}, mode, place / "probe", _SECONDS, dict(options)),
        timeout=_SECONDS,
        stdout=place / "out.txt",
        stderr=place / "err.txt",
    )
    assert ended.exit_status == status, (place / "err.txt").read_text()
    assert read_findings(place / "probe").problems == ()
    return (place / "out.txt").read_text()
