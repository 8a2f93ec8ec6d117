"""Run the case's script subject under the probe, with private caches, its output below a directory of the case."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from repro_kit.case import Case
from repro_kit.runner.launch import Run, launch
from repro_kit.runner.subject import command, private_caches, probe_environment


def run_subject(
    case: Case,
    place: Path,
    *,
    timeout: float,
    mode: str = "observe",
    probe: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    findings: Path | None = None,
    copy_of: Path | None = None,
    on_tick: Callable[[float], None] | None = None,
) -> Run:
    """Run it; `probe` are the options of the probe's `mode`, `findings` where it writes (`place`/probe by default)."""
    with private_caches(case.path, copy_of) as caches:
        full = {**os.environ, **caches, **(env or {})}
        return launch(
            command(case.file.subject),
            cwd=Path(case.file.subject.cwd),
            env=probe_environment(full, mode, findings or place / "probe", timeout, probe),
            timeout=timeout,
            stdout=place / "stdout.txt",
            stderr=place / "stderr.txt",
            on_tick=on_tick,
        )
