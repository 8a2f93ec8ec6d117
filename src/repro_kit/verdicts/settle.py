"""Settle whose failure it is, if the observed run left that open: by a graph that fails alone, or by more runs."""

from __future__ import annotations

from dataclasses import replace

from repro_kit.case.case import Case
from repro_kit.case.stage_results import FAILURE, OBSERVATION, ROUNDING, Observation
from repro_kit.errors import Exit, Stop
from repro_kit.failure.failure import Status
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import signature_of
from repro_kit.subject.script_run import SubjectRun, run_subject
from repro_kit.ui import Ui
from repro_kit.verdicts import blame, not_the_compiler

_VERBOSE = "+dynamo,trace_source,trace_bytecode"
_KEPT = 400  # lines of the verbose log
_SHORT = 60.0  # seconds; a longer run is not repeated for its log


def by_program(case: Case) -> None:
    """Settle that the compiler is at fault: a graph fails alike alone, and passes in eager. Nothing runs again."""
    observation = case.load(OBSERVATION)
    if not observation.settled:
        wrong = tuple(map(blame.as_wrong_result, observation.failures))
        _store(case, replace(observation, failures=wrong, settled=True))


def by_runs(case: Case, timeout: float, ui: Ui) -> None:
    """Run the subject in eager, and again as often as needed; do nothing if the observed run settled it.

    `timeout`: seconds for a run. Raises Stop when the compiler is not at fault, or when that remains unknown.
    """
    observation = case.load(OBSERVATION) if case.holds(OBSERVATION) else None
    if observation is None or observation.settled:
        return
    judged = blame.judge_by_reruns(case, timeout, ui, observation)
    if judged.rounding is not None:
        case.store(ROUNDING, judged.rounding)
    warnings = (*observation.warnings, *judged.warnings, *filter(None, [judged.nobody]))
    _store(case, replace(observation, failures=judged.failures, eager=judged.eager, warnings=warnings, settled=True))
    for sentence in judged.warnings:
        ui.warn(sentence)
    chosen = judged.failures[case.file.failure_index]
    if judged.nobody or judged.eager is Status.FAIL:
        case.update(signature=None)
    if judged.nobody:
        raise Stop(Exit.FAILED, f"It cannot be told whether the compiler is at fault: {judged.nobody}.")
    if judged.both:
        words = f"The script catches an exception that its compiled calls raise in eager, too: {judged.both}"
        raise Stop(Exit.NOTHING_FAILED, f"Nothing failed. {words}.")
    if judged.eager is Status.FAIL:
        raise not_the_compiler.stop_for_eager_failure(judged.in_eager or chosen)
    case.update(signature=signature_of(judged.lost) if judged.lost is not None else chosen.signature)
    if chosen.failure.kind == Kind.DYNAMO_ERROR and observation.seconds <= _SHORT:
        _log_dynamo(case, timeout, ui)


def _store(case: Case, observation: Observation) -> None:
    case.store(OBSERVATION, observation)
    case.store(FAILURE, observation.failures[0])


def _log_dynamo(case: Case, timeout: float, ui: Ui) -> None:
    """Keep the end of Dynamo's verbose log, since there is no graph to look at."""
    ui.progress("running again with Dynamo's verbose log")
    directory = case.path / "observe" / "dynamo"
    run = SubjectRun(directory, why="Dynamo's verbose log", timeout=timeout, env={"TORCH_LOGS": _VERBOSE}, ui=ui)
    run_subject(case, run)
    log = directory / "stderr.txt"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_KEPT:]
    log.unlink()
    kept_log = case.path / "observe" / "logs" / "dynamo_last.txt"
    kept_log.parent.mkdir(parents=True, exist_ok=True)
    kept_log.write_text("\n".join(lines) + "\n", encoding="utf-8")
