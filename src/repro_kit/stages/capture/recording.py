"""The recorded graphs of the subject and the arguments of their calls, from the observed run or from another run."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.stage_results import Observation, ObservedFailure
from repro_kit.failure.kinds import Kind
from repro_kit.graph.reading.graph_record import InputRecord
from repro_kit.probe.repro_probe.protocol.findings import INPUTS
from repro_kit.runner.read_findings import Findings, Recorded, read_findings, read_recorded
from repro_kit.subject import watched_recording
from repro_kit.subject.script_run import SubjectRun, run_subject
from repro_kit.ui import Ui
from repro_kit.verdicts.observed_failures import failed_first


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


Inputs = Sequence[InputRecord]


def arguments_for(placeholders: Inputs, own: Inputs, call: Inputs) -> tuple[InputRecord, ...] | None:
    """The arguments of `call`, a call of a graph with the placeholders `own`, as arguments for `placeholders`.

    Both graphs are of one frame, so an argument is known by its source. A number that the graph of the call holds as a
    constant, and that became symbolic later, is unknown: it gets another value than that of `placeholders`, since that
    it changed is what made it symbolic. None if the tensors of the call do not fit.
    """
    tensors = _tensors(placeholders, own, call)
    if tensors is None:
        return None
    numbers = {key(mine): value for mine, value in zip(own, call, strict=False) if not _is_tensor(mine)}
    arguments = [
        tensors.pop(0) if _is_tensor(placeholder) else _number(placeholder, numbers.get(key(placeholder)))
        for placeholder in placeholders
    ]
    sizes = {
        symbol: size
        for placeholder, record in zip(placeholders, arguments, strict=True)
        if _is_tensor(placeholder)
        for symbol, size in zip(placeholder.symbols, record.shape, strict=False)
    }
    return tuple(
        replace(record, value=sizes[record.symbol]) if record.kind != "tensor" and record.symbol in sizes else record
        for record in arguments
    )


def key(record: InputRecord) -> str:
    """The source of an argument, by which it is known in every graph of its frame."""
    return record.source or record.name


def _is_tensor(placeholder: InputRecord) -> bool:
    return placeholder.kind == "tensor" and not placeholder.as_tensor


def _tensors(placeholders: Inputs, own: Inputs, call: Inputs) -> list[InputRecord] | None:
    """The tensors of the call, by source if both graphs name the same, else by position; None if they do not fit."""
    wanted = [placeholder for placeholder in placeholders if _is_tensor(placeholder)]
    given = {key(mine): value for mine, value in zip(own, call, strict=False) if _is_tensor(mine)}
    if len(given) != len(wanted):
        return None
    by_source = [given[key(placeholder)] for placeholder in wanted if key(placeholder) in given]
    tensors = by_source if len(by_source) == len(wanted) else list(given.values())
    fits = [len(record.shape) for record in tensors] == [len(placeholder.shape) for placeholder in wanted]
    return tensors if fits else None


def _number(placeholder: InputRecord, recorded: InputRecord | None) -> InputRecord:
    """The number of a call; another one than the placeholder's if the call's graph has it as a constant."""
    if recorded is not None and placeholder.as_tensor:
        return replace(placeholder, value=recorded.value if recorded.scalar is None else recorded.scalar)
    if recorded is not None:
        return replace(placeholder, value=recorded.value)
    changes = placeholder.as_tensor or placeholder.symbolic
    if changes and isinstance(placeholder.value, int | float) and not isinstance(placeholder.value, bool):
        return replace(placeholder, value=placeholder.value + 1)
    return placeholder
