"""The recorded graphs of the subject: from the observed run, or from another run if that is not enough."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.stage_results import Observation, ObservedFailure
from repro_kit.model.failure.failure import Kind
from repro_kit.probe.repro_probe.protocol.findings import INPUTS
from repro_kit.program.reading.graph_record import InputRecord
from repro_kit.runner.read_findings import Findings, read_findings
from repro_kit.runner.recorded import Recorded, read_recorded
from repro_kit.session.script import watched_recording
from repro_kit.session.script.script_run import SubjectRun, run_subject
from repro_kit.session.verdicts.observed_failures import failed_first
from repro_kit.ui import Ui


@dataclass(frozen=True)
class RecordedGraphs:
    """The directory of the probe's files, the recorded processes, and the user's own Python files.

    The processes that failed come first, since all ranks of a distributed run may have the same graphs.
    """

    directory: Path
    processes: tuple[Recorded, ...]
    files: tuple[Path, ...]
    failed: tuple[int, ...] = ()  # the processes that failed by themselves

    def of_failure(self, failure: ObservedFailure | None) -> tuple[Recorded, ...]:
        """The processes whose graphs may show `failure`.

        What a process raised in the compiler, or a crash, no graph of another process shows. A wrong result may come
        from another rank.
        """
        if failure is None or failure.source not in ("exception", "exit"):
            return self.processes
        if not failure.failure.kind.policy.in_compiler and failure.failure.kind is not Kind.CRASH:
            return self.processes
        return tuple(process for process in self.processes if process.pid in self.failed) or self.processes

    @property
    def inputs(self) -> Path:
        """The directory of the stored values."""
        return self.directory / INPUTS

    @property
    def graphs(self) -> int:
        """How many graphs were recorded."""
        return sum(len(process.graphs) for process in self.processes)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with the damaged records, which are left out."""
        return tuple(problem for process in self.processes for problem in process.problems)

    @property
    def lacks_values(self) -> bool:
        """Whether values of inputs were left out because they are large."""
        return any(
            _is_left_out(record) for process in self.processes for graph in process.graphs for record in graph.inputs
        )


def _is_left_out(record: InputRecord) -> bool:
    return record.kind == "tensor" and record.file is None and 0 not in record.shape


def of_observed_run(case: Case, observation: Observation) -> RecordedGraphs | None:
    """The graphs recorded in the observed run, or by `repro_kit.watch`; None if none were."""
    if watched_recording.is_watched(case.path):
        directory = case.path / "capture" / "record"
        shutil.rmtree(directory, ignore_errors=True)
        return _read(case, directory, watched_recording.lay_out(case, directory), own=())
    directory = case.path / "observe" / "probe"
    if not observation.recorded or not directory.is_dir():
        return None
    return _read(case, directory, read_findings(directory), own=_named(case))


def of_another_run(case: Case, timeout: float, ui: Ui, why: str) -> RecordedGraphs:
    """Run the subject once more and record its graphs, with all values within the probe's larger limit."""
    directory = case.path / "capture" / "record"
    shutil.rmtree(directory, ignore_errors=True)
    ui.progress("running the script again, to record its graphs")
    run = SubjectRun(
        directory,
        why=f"capture: {why}",
        timeout=timeout,
        mode="capture",
        findings=directory,
        ui=ui,
    )
    run_subject(case, run)
    findings = read_findings(directory)
    for problem in findings.problems:
        ui.warn(f"The probe had a problem while recording: {problem.strip().splitlines()[-1]}")
    return _read(case, directory, findings, own=_named(case))


def _read(case: Case, directory: Path, findings: Findings, own: Sequence[Path]) -> RecordedGraphs:
    files = tuple(dict.fromkeys([*own, *map(Path, findings.modules)]))
    failed = failed_first(findings)
    processes = sorted(read_recorded(directory), key=lambda process: process.pid not in failed)
    return RecordedGraphs(directory, tuple(processes), files, failed)


def _named(case: Case) -> list[Path]:
    """The Python files that the command names."""
    subject = case.file.subject
    script = [Path(subject.cwd, subject.argv[0])] if subject.form == "script" else []
    names = [part.split("::")[0] for part in subject.argv]
    return [*script, *(Path(subject.cwd, name) for name in names if name.endswith(".py"))]
