"""Run the subject without torch.compile, and check that no compiled code ran."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.stage_results import ObservedFailure
from repro_kit.probe.repro_probe.protocol.orders import Override
from repro_kit.runner.read_findings import probe_failure, read_findings
from repro_kit.runner.subject_start import ProcessesWithoutProbe
from repro_kit.runner.supervised import Run
from repro_kit.subject.script_run import SubjectRun, run_subject
from repro_kit.trace import TraceSummary
from repro_kit.ui import Ui
from repro_kit.verdicts.deadlocks import DeadlockWatch
from repro_kit.verdicts.observed_failures import found_in

#: The probe's options (mode `override`) and the variable. With fullgraph=True, torch 2.13 raises when no frame is left
#: to compile, and `dynamic` counts for what an operator of higher order traces in eager. The program may drop the
#: variable; the probe does not rely on it.
PROBE: Override = {"fullgraph": False, "dynamic": None, "eager": True}
EAGER_VARIABLES = {"TORCH_COMPILE_DISABLE": "1"}

_LONGEST = 80  # characters of a command line in a message


@dataclass(frozen=True)
class EagerRun:
    """How the subject ended without torch.compile. `doubt`: why compiled code may have run nevertheless."""

    run: Run
    failures: tuple[ObservedFailure, ...]
    doubt: str = ""

    @property
    def passes(self) -> bool:
        """Whether the run ended without a failure, and no compiled code ran."""
        return self.run.ok and not self.failures and not self.doubt


def run_eager(case: Case, directory: Path, timeout: float, ui: Ui | None = None) -> EagerRun:
    """Run the subject without torch.compile; its files go to `directory`."""
    shutil.rmtree(directory / "probe", ignore_errors=True)
    unseen, deadlock = ProcessesWithoutProbe(), DeadlockWatch(directory / "probe")

    def tick(seconds: float) -> None:
        unseen.look(seconds)
        deadlock.look(seconds)

    run = SubjectRun(
        directory,
        why="does it fail without torch.compile?",
        timeout=timeout,
        mode="override",
        probe=PROBE,
        env=EAGER_VARIABLES,
        on_tick=tick,
        ui=ui,
    )
    ended = run_subject(case, run)
    failures = found_in(directory, ended, read_findings(directory / "probe"), TraceSummary())
    return EagerRun(ended, tuple(failures), doubt_of_eager_run(directory / "probe", unseen))


def doubt_of_eager_run(probe: Path, unseen: ProcessesWithoutProbe | None = None) -> str:
    """Why a run that should compile nothing may have run compiled code; empty if it did not."""
    failed = probe_failure(probe)
    if failed:
        return failed
    findings = read_findings(probe)
    graphs = findings.graphs_made
    if graphs:
        return f"{graphs} graph{'s were' if graphs > 1 else ' was'} compiled nevertheless"
    if findings.loaded:
        return "it runs code that was compiled before, and that it loads from a file"
    hidden = unseen.without_probe(probe) if unseen else ()
    if hidden:
        words = hidden[0] if len(hidden[0]) <= _LONGEST else hidden[0][: _LONGEST - 1] + "…"
        return f"a process with torch ran where the probe could not see it ({words})"
    return ""
