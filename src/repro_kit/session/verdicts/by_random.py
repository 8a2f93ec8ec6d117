"""Find out whether random numbers explain a wrong result of the script: Inductor draws others than eager does.

With ``torch._inductor.config.fallback_random`` a compiled graph draws eager's random numbers. Where the compiled calls
then agree with eager, and the script's own check passes, nothing is wrong.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from repro_kit.case.stage_results import ObservedFailure
from repro_kit.model.failure.rounding import Rounding
from repro_kit.model.measure.timing import CompiledCall
from repro_kit.probe.repro_probe.protocol.orders import Override
from repro_kit.runner.read_findings import read_findings
from repro_kit.session.script.script_run import SubjectRun, run_overridden
from repro_kit.session.verdicts import observed_failures
from repro_kit.session.verdicts.by_rounding import Reruns
from repro_kit.trace import TraceSummary

_SETTING = "inductor.fallback_random"


def explanation(runs: Reruns, chosen: ObservedFailure, calls: Sequence[CompiledCall]) -> Rounding | None:
    """Why `chosen` is due to random numbers, after the compiled `calls` were compared; None when it may be a bug."""
    clean = all(call.difference is None and not call.raised and not call.problem and call.rounding for call in calls)
    if not clean or not _passes(runs):
        return None
    return Rounding(
        evidence=(
            "the compiled calls agree with eager where both draw the same random numbers",
            f"with {_SETTING}=True the script passes, compiled",
            "a bug in Inductor's own random numbers would not show",
        ),
        why="the compiled graph draws other random numbers than eager, which torch does not promise to be the same",
        restored_by=f"{_SETTING}=True",
        random=True,
    )


def _passes(runs: Reruns) -> bool:
    """Whether the compiled script passes with eager's random numbers."""
    runs.ui.progress("running the program with eager's random numbers")
    directory = runs.case.path / "observe" / "same-random"
    shutil.rmtree(directory, ignore_errors=True)
    same: Override = {"config": {_SETTING: True}}
    why = "does its check pass with eager's random numbers?"
    run = SubjectRun(directory, why=why, timeout=runs.timeout, copy_of=runs.copy_of, ui=runs.ui)
    ended = run_overridden(runs.case, run, same)
    found = observed_failures.found_in(directory, ended, read_findings(directory / "probe"), TraceSummary())
    return ended.exit_status == 0 and not found
