"""Run a script under the probe in a fork of a process that has imported torch: a tenth of the time of a start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from repro_kit.probe.repro_probe.protocol.orders import ProbeOptions, RunMode
from repro_kit.probe.repro_probe.protocol.queries import ScriptOrder
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.runner.read_findings import read_findings

_SECONDS = 600  # more than any machine needs, however busy


def run_forked(
    oracle: ProgramOracle, place: Path, code: str, mode: str, options: Mapping[str, Any], status: int = 0
) -> str:
    """What the script prints. It must end with `status`, and the probe must have no problem.

    The findings are in ``place/probe``, the trace in ``place/trace``. The script may write below `place` only, and what
    is registered with atexit does not run.
    """
    order: ScriptOrder = {
        "text": code,
        "directory": str(place),
        "mode": cast(RunMode, mode),
        "options": cast(ProbeOptions, dict(options)),
        "env": {},
        "env_before_torch": {},
        "recording": None,
        "ranks": 1,
    }
    (end,) = oracle.run_scripts([order], timeout=_SECONDS)
    assert (end.exit_status, end.refused, end.problem) == (status, (), ""), (place / "stderr.txt").read_text()
    assert read_findings(place / "probe").problems == ()
    return (place / "stdout.txt").read_text()
