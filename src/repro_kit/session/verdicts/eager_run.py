"""Run the subject without torch.compile, and make sure that this is what happened."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.stage_results import ObservedFailure
from repro_kit.probe.repro_probe.protocol.orders import Override
from repro_kit.runner.findings import probe_failure, read_findings
from repro_kit.runner.launch import Run
from repro_kit.runner.unseen import Unseen
from repro_kit.session.script.script_run import run_subject
from repro_kit.session.verdicts.observed_failures import found_in
from repro_kit.trace import TraceSummary

#: The probe's options (mode `override`) and the variable. With fullgraph=True, torch 2.13 raises when it is left
#: without a frame to compile. The variable may be lost on its way; the probe does not rely on it.
PROBE: Override = {"fullgraph": False, "eager": True}
VARIABLES = {"TORCH_COMPILE_DISABLE": "1"}

_LONGEST = 80  # characters of a command line that is named


@dataclass(frozen=True)
class EagerRun:
    """How the subject ended without torch.compile; `doubt`: why it cannot be said that nothing was compiled."""

    run: Run
    failures: tuple[ObservedFailure, ...]
    doubt: str = ""

    @property
    def passes(self) -> bool:
        """Whether it ended well, and nothing was compiled."""
        return self.run.ok and not self.failures and not self.doubt


def run_eager(case: Case, directory: Path, timeout: float) -> EagerRun:
    """The subject without torch.compile; what it leaves goes to `directory`."""
    shutil.rmtree(directory / "probe", ignore_errors=True)
    unseen = Unseen()
    ended = run_subject(
        case,
        directory,
        why="does it fail without torch.compile?",
        timeout=timeout,
        mode="override",
        probe=PROBE,
        env=VARIABLES,
        on_tick=unseen.look,
    )
    failures = found_in(directory, ended, read_findings(directory / "probe"), TraceSummary())
    return EagerRun(ended, tuple(failures), doubt(directory / "probe", unseen))


def doubt(probe: Path, unseen: Unseen | None = None) -> str:
    """Why a run that was to compile nothing may have compiled something; empty where it did not."""
    failed = probe_failure(probe)
    if failed:
        return failed
    graphs = read_findings(probe).graphs_made
    if graphs:
        return f"{graphs} graph{'s were' if graphs > 1 else ' was'} compiled all the same"
    hidden = unseen.without_probe(probe) if unseen else ()
    if hidden:
        words = hidden[0] if len(hidden[0]) <= _LONGEST else hidden[0][: _LONGEST - 1] + "…"
        return f"a process with torch ran where the probe could not see it ({words})"
    return ""
