"""Where the graphs of the subject are recorded: in the observed run, or, where that will not do, in one run more."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.stage_results import Observation
from repro_kit.probe.repro_probe.protocol.findings import INPUTS
from repro_kit.program.graph_record import InputRecord
from repro_kit.runner.read_findings import Findings, read_findings
from repro_kit.runner.recorded import Recorded, read_recorded
from repro_kit.session.script import watched
from repro_kit.session.script.script_run import run_subject
from repro_kit.ui import Ui


@dataclass(frozen=True)
class Recording:
    """The recorded processes, the directory of the probe's files, and the user's own Python files."""

    directory: Path
    processes: tuple[Recorded, ...]
    files: tuple[Path, ...]

    @property
    def inputs(self) -> Path:
        """Where stored values lie."""
        return self.directory / INPUTS

    @property
    def graphs(self) -> int:
        """How many graphs were recorded."""
        return sum(len(process.graphs) for process in self.processes)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with damaged records, which are left out."""
        return tuple(problem for process in self.processes for problem in process.problems)

    @property
    def lacks_values(self) -> bool:
        """Whether values of inputs were left out, since they are large."""
        return any(
            _is_left_out(record) for process in self.processes for graph in process.graphs for record in graph.inputs
        )


def _is_left_out(record: InputRecord) -> bool:
    return record.kind == "tensor" and record.file is None and 0 not in record.shape


def of_observed_run(case: Case, observation: Observation) -> Recording | None:
    """What was recorded while the subject was observed, or by `repro_kit.watch`; None where nothing was."""
    if watched.is_watched(case.path):
        directory = case.path / "capture" / "record"
        shutil.rmtree(directory, ignore_errors=True)
        return _read(case, directory, watched.lay_out(case, directory), own=())
    directory = case.path / "observe" / "probe"
    if not observation.recorded or not directory.is_dir():
        return None
    return _read(case, directory, read_findings(directory), own=_named(case))


def of_another_run(case: Case, timeout: float, ui: Ui, why: str) -> Recording:
    """Run the subject once more and record its graphs, with all values that fit on the probe's larger limit."""
    directory = case.path / "capture" / "record"
    shutil.rmtree(directory, ignore_errors=True)
    run_subject(
        case,
        directory,
        why=f"capture: {why}",
        timeout=timeout,
        mode="capture",
        findings=directory,
        on_tick=lambda seconds: ui.progress(f"recording the graphs, {seconds:.0f} s"),
    )
    findings = read_findings(directory)
    for problem in findings.problems:
        ui.warn(f"The probe had a problem while recording: {problem.strip().splitlines()[-1]}")
    return _read(case, directory, findings, own=_named(case))


def _read(case: Case, directory: Path, findings: Findings, own: Sequence[Path]) -> Recording:
    files = tuple(dict.fromkeys([*own, *map(Path, findings.modules)]))
    return Recording(directory, tuple(read_recorded(directory)), files)


def _named(case: Case) -> list[Path]:
    """The Python files that the command names."""
    subject = case.file.subject
    script = [Path(subject.cwd, subject.argv[0])] if subject.form == "script" else []
    names = [part.split("::")[0] for part in subject.argv]
    return [*script, *(Path(subject.cwd, name) for name in names if name.endswith(".py"))]
