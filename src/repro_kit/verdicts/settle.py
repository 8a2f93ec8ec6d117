"""Settle whose failure it is, by a graph that fails alone or by more runs; and the verdict on one run of a script."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.stage_results import FAILURE, OBSERVATION, ROUNDING, Observation
from repro_kit.errors import Exit, Stop
from repro_kit.failure.exception_origin import Nature
from repro_kit.failure.failure import Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature, Strength, signature_of
from repro_kit.failure.symptom import Symptom
from repro_kit.runner.read_findings import read_findings
from repro_kit.runner.supervised import Run
from repro_kit.subject.script_run import SubjectRun, run_subject
from repro_kit.trace import summarise
from repro_kit.ui import Ui
from repro_kit.verdicts import blame, not_the_compiler, observed_failures, symptoms
from repro_kit.verdicts.blame import as_wrong_result

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


def verdict_of(
    directory: Path, ended: Run, symptom: Symptom | None, target: Signature | None, *, passes_in_eager: bool
) -> Verdict:
    """The verdict on a run whose trace, findings and output are in `directory`.

    `target`: the failure to look for among several. `passes_in_eager`: whether the script passes without the compiler,
    so that an exception of its own check is a wrong result.
    """
    summary = summarise(directory / "trace")
    findings = read_findings(directory / "probe")
    failures = observed_failures.found_in(directory, ended, findings, summary)
    if symptom is not None and (ended.ok or symptom.kind.policy.eager_raises):
        verdict = symptoms.of_run(symptom, ended, findings, summary)
        if ended.ok or verdict.failure is not None:
            return verdict
    if not failures:
        return Verdict(Status.PASS, seconds=ended.seconds)
    lost = next((each.signature for each in failures if target and each.signature.is_lost_by(target)), None)
    if lost is not None:
        return Verdict(Status.PASS, seconds=ended.seconds, note=f"it raises {lost.exceptions[-1]}, as eager does")
    if passes_in_eager:
        failures = [as_wrong_result(failure) for failure in failures]
    like = [observed for observed in failures if target and target.matches(observed.signature, Strength.REBASED)]
    failure = (like or failures)[0]
    if failure.nature in (Nature.MACHINE, Nature.OBSERVER):
        whose = "of the machine" if failure.nature is Nature.MACHINE else "in repro-kit's own code"
        note = f"an error {whose}: {failure.signature.summary()}"
        return Verdict(Status.CANNOT_TELL, seconds=ended.seconds, note=note)
    return Verdict(Status.FAIL, failure.failure, ended.seconds)
