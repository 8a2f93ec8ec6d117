"""Run the subject without torch.compile, and make sure that this is what happened."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.stage_results import ObservedFailure
from repro_kit.probe.repro_probe.protocol.orders import Override
from repro_kit.runner.launch import Run
from repro_kit.runner.processes_without_probe import ProcessesWithoutProbe
from repro_kit.runner.read_findings import probe_failure, read_findings
from repro_kit.session.script.script_run import run_subject
from repro_kit.session.verdicts.failures import found_in
from repro_kit.trace import TraceSummary

#: The probe's options (mode `override`) and the variable. With fullgraph=True, torch 2.13 raises when it is left
#: without a frame to compile. The variable may be lost on its way; the probe does not rely on it.
PROBE: Override = {"fullgraph": False, "eager": True}
VARIABLES = {"TORCH_COMPILE_DISABLE": "1"}

_LONGEST = 80  # characters of a command line that is named


@dataclass(frozen=True)
class EagerRun:
    """How the subject ended without torch.compile; `doubt`: why it cannot be said that nothing was compiled."""

    ran: Run
    found: tuple[ObservedFailure, ...]
    doubt: str = ""

    @property
    def passes(self) -> bool:
        """Whether it ended well, and nothing was compiled."""
        return self.ran.ok and not self.found and not self.doubt


def run_eager(case: Case, place: Path, timeout: float) -> EagerRun:
    """The subject without torch.compile; what it leaves goes to `place`."""
    shutil.rmtree(place / "probe", ignore_errors=True)
    unseen = ProcessesWithoutProbe()
    ran = run_subject(
        case,
        place,
        why="does it fail without torch.compile?",
        timeout=timeout,
        mode="override",
        probe=PROBE,
        env=VARIABLES,
        on_tick=unseen.look,
    )
    found = found_in(place, ran, read_findings(place / "probe"), TraceSummary())
    return EagerRun(ran, tuple(found), doubt(place / "probe", unseen))


def doubt(probe: Path, unseen: ProcessesWithoutProbe | None = None) -> str:
    """Why a run that was to compile nothing may have compiled something; empty where it did not."""
    failed = probe_failure(probe)
    if failed:
        return failed
    made = read_findings(probe).graphs_made
    if made:
        return f"{made} graph{'s were' if made > 1 else ' was'} compiled all the same"
    hidden = unseen.without_probe(probe) if unseen else ()
    if hidden:
        words = hidden[0] if len(hidden[0]) <= _LONGEST else hidden[0][: _LONGEST - 1] + "…"
        return f"a process with torch ran where the probe could not see it ({words})"
    return ""
