"""Measure a symptom on the user's command, unchanged or as a cell changes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from repro_kit.case.case import Case
from repro_kit.case.stage_results import ROUNDING, SYMPTOM, ObservedFailure
from repro_kit.errors import StageError
from repro_kit.failure.compiled_calls import extra_memory, is_explained, slowdown, validation_lost, wrong_result
from repro_kit.failure.failure import Failure, Measured, Status, Verdict
from repro_kit.failure.kinds import Kind, Unit
from repro_kit.failure.signature import signature_of
from repro_kit.failure.symptom import Symptom, parse_symptom
from repro_kit.options.stages import ObserveOptions, OracleOptions
from repro_kit.probe.repro_probe.protocol.orders import Measure, Override
from repro_kit.runner.read_findings import Findings, read_findings
from repro_kit.runner.subject_start import ProcessesWithoutProbe
from repro_kit.runner.supervised import Run, exit_name
from repro_kit.subject.script_run import SubjectRun, run_overridden
from repro_kit.trace import TraceSummary, summarise
from repro_kit.ui import Ui
from repro_kit.verdicts import blame, by_rounding, eager_run, user_oracle
from repro_kit.verdicts.blame import Blame


def requested(options: OracleOptions) -> Symptom | None:
    """The symptom or the oracle that the user asked for; None without one."""
    symptom = user_oracle.user_oracle_of(options) or (parse_symptom(options.check) if options.check else None)
    return symptom and replace(symptom, rounding=options.treat_rounding_as == by_rounding.AS_FAILURE)


def case_symptom(case: Case) -> Symptom | None:
    """The symptom that the case is about, with its measured baseline; None if the case is about another failure."""
    if not case.holds(SYMPTOM) or case.file.signature is None:
        return None
    symptom = case.load(SYMPTOM)
    return symptom if symptom.kind == case.file.signature.kind else None


def with_measured_baseline(case: Case, timeout: float, ui: Ui, symptom: Symptom) -> Symptom:
    """`symptom` with its measured baseline; the case keeps it for the cells."""
    if symptom.baseline:
        ui.progress("measuring the baseline")
        measured = _measured_at(case, timeout, symptom)
        symptom = symptom.with_reference(measured.value)
    case.store(SYMPTOM, symptom)
    return symptom


@dataclass(frozen=True)
class SymptomSearch:
    """The result of looking for a symptom: a failure if it is present, else the measurement in words."""

    failures: tuple[ObservedFailure, ...] = ()
    words: str = ""


def look_for(
    case: Case, options: ObserveOptions, ui: Ui, ended: Run, findings: Findings, summary: TraceSummary
) -> SymptomSearch:
    """Look for the symptom that the user asked for."""
    (case.path / SYMPTOM.name).unlink(missing_ok=True)
    symptom = requested(options)
    if symptom is None:
        return SymptomSearch()
    if symptom.kind is Kind.ORACLE:
        return _asked(case, options.timeout, ui, symptom)
    if symptom.kind is Kind.COMPILE_GROWTH:  # capture measures the graphs
        return SymptomSearch()
    if not ended.ok and not symptom.kind.policy.eager_raises:  # a script may expect the exception, and fail without it
        return SymptomSearch(words=f"The program failed ({exit_name(ended)}), so {symptom.text} was not measured")
    symptom = with_measured_baseline(case, options.timeout, ui, symptom)
    directory = case.path / "observe" / "measured"
    if probes(symptom) and not symptom.kind.policy.compared:  # the observed run has compared the calls itself
        ui.progress("measuring the compiled calls")
        why = f"{symptom.kind} is measured on its compiled calls"
        ended = run_overridden(
            case, SubjectRun(directory, why=why, timeout=options.timeout, ui=ui), {"measure": probes(symptom)}
        )
        findings = read_findings(directory / "probe")
    verdict = of_run(symptom, ended, findings, summary)
    verdict = _or_lost(case, symptom, verdict, ended, findings)
    if verdict.status is Status.CANNOT_TELL:
        if symptom.kind.policy.compared:  # the graphs are tried later
            return SymptomSearch(words=f"No call of the script could be compared with eager: {verdict.note}")
        raise StageError(f"{symptom.text} cannot be measured: {verdict.note}; see {directory}.")
    if verdict.status is Status.FLAKY:
        return SymptomSearch(words=f"Whether {symptom.text} holds is uncertain: {verdict.note}")
    is_rounding = symptom.kind is Kind.ACCURACY and is_explained(findings.compiled)
    if is_rounding:
        case.store(ROUNDING, by_rounding.rounding_of_calls(findings.compiled))
    if verdict.failure is None and symptom.kind is Kind.ACCURACY and not is_rounding:
        verdict = _of_state(case, options, ui, symptom) or verdict
    if verdict.failure is None and symptom.kind.policy.compared:
        return SymptomSearch(words=f"In the script {verdict.note}")
    if verdict.failure is None:
        return SymptomSearch(words=f"{symptom.text} was not seen: {verdict.note}")
    return SymptomSearch((ObservedFailure(verdict.failure, signature_of(verdict.failure), source="measured"),))


def _or_lost(case: Case, symptom: Symptom, verdict: Verdict, ended: Run, findings: Findings) -> Verdict:
    """`verdict`, or the exception that compiled calls lose: no result can be compared where eager has none."""
    lost = validation_lost(findings.compiled) if symptom.kind is Kind.ACCURACY else None
    if verdict.failure is not None or lost is None:
        return verdict
    case.store(SYMPTOM, Symptom(Kind.VALIDATION, text=Kind.VALIDATION.policy.form))
    return _compared(lost, ended, findings)


def _of_state(case: Case, options: ObserveOptions, ui: Ui, symptom: Symptom) -> Verdict | None:
    """The verdict of a run in which the Python state after compiled calls is compared; None unless it differs.

    Results are compared by repeating calls, so that what a single call leaves needs a run of its own.
    """
    ui.progress("comparing the Python state that the compiled calls leave")
    directory, symptom = case.path / "observe" / "state", replace(symptom, of_state=True)
    why = "the results agree with eager: does the Python state that the calls leave?"
    ended = run_overridden(
        case, SubjectRun(directory, why=why, timeout=options.timeout, ui=ui), {"measure": probes(symptom)}
    )
    verdict = of_run(symptom, ended, read_findings(directory / "probe"), TraceSummary())
    if verdict.failure is None:
        if verdict.status is Status.CANNOT_TELL:
            ui.note(f"Whether the calls leave the Python state that they leave in eager is unknown: {verdict.note}.")
        return None
    case.store(SYMPTOM, symptom)
    return verdict


def _asked(case: Case, timeout: float, ui: Ui, oracle: Symptom) -> SymptomSearch:
    """Ask the user's oracle about the unchanged subject."""
    ui.progress("asking the oracle")
    case.store(SYMPTOM, oracle)
    verdict = user_oracle.ask_user_oracle(case, oracle, case.path / "observe" / "oracle", {}, timeout)
    if verdict.failure is None or verdict.failure.kind is not Kind.ORACLE:
        return SymptomSearch(words=f"The oracle does not call the program bad: {verdict.note}")
    return SymptomSearch((ObservedFailure(verdict.failure, signature_of(verdict.failure), source="measured"),))


def begin_blame(
    case: Case,
    options: ObserveOptions,
    ui: Ui,
    failures: list[ObservedFailure],
    observed: Run,
    copy_of: Path | None = None,
    *,
    of_a_graph: bool = True,
) -> Blame:
    """Like `blame.judge_observed`, but a failure that an oracle found is checked by asking the oracle about eager."""
    if failures[0].failure.kind is not Kind.ORACLE:
        return blame.judge_observed(case, options, ui, failures, observed, copy_of, of_a_graph=of_a_graph)
    directory = case.path / "observe" / "eager"
    unseen = ProcessesWithoutProbe()
    verdict = user_oracle.ask_user_oracle(
        case,
        case.load(SYMPTOM),
        directory,
        eager_run.PROBE,
        options.timeout,
        eager_run.EAGER_VARIABLES,
        on_tick=unseen.look,
    )
    doubt = eager_run.doubt_of_eager_run(directory / "probe", unseen)
    if doubt:
        why = f"Whether the oracle calls the program bad without torch.compile is unknown: {doubt}."
        return Blame(Status.CANNOT_TELL, tuple(failures), (why,))
    if verdict.status is Status.CANNOT_TELL:
        return Blame(
            Status.INVALID, tuple(failures), (f"Without torch.compile the oracle gives no answer: {verdict.note}.",)
        )
    if verdict.failure is not None and verdict.failure.kind is not Kind.ORACLE:
        why = f"Without torch.compile the oracle calls the program bad in another way: {verdict.note}."
        return Blame(Status.INVALID, tuple(failures), (why,))
    return Blame(verdict.status, tuple(failures))


def probes(symptom: Symptom) -> tuple[Measure, ...]:
    """What the probe must measure (mode `override`) for `symptom`; empty if every run shows it."""
    if symptom.of_state:
        return ("state",)
    probe = symptom.kind.policy.probe
    return () if probe is None or symptom.unit is Unit.BYTES else (probe,)


def of_run(symptom: Symptom, ended: Run, findings: Findings, summary: TraceSummary) -> Verdict:
    """The verdict on `symptom` of a traced run, in which the probe measured what `probes` asks for."""
    if symptom.kind is Kind.ACCURACY:
        return _compared(wrong_result(findings.compiled, rounding=symptom.rounding), ended, findings)
    if symptom.kind is Kind.VALIDATION:
        return _compared(validation_lost(findings.compiled), ended, findings)
    measured = _reading(symptom, findings, summary)
    if measured is None:
        return Verdict(Status.CANNOT_TELL, seconds=ended.seconds, note=_why_not(ended, findings))
    return symptom.verdict(measured, ended.seconds)


def _compared(failure: Failure | None, ended: Run, findings: Findings) -> Verdict:
    """The verdict on the comparison of the compiled calls with eager, which shows `failure`."""
    if failure is not None:
        return Verdict(Status.FAIL, failure, ended.seconds, note=f"{signature_of(failure).summary()} {failure.text}")
    count = sum(call.compared for call in findings.compiled)
    if not count:
        return Verdict(Status.CANNOT_TELL, seconds=ended.seconds, note=_why_not(ended, findings))
    notes = dict.fromkeys(call.note for call in findings.compiled if call.note)
    words = [f"{count} compiled call{'s agree' if count > 1 else ' agrees'} with eager", *notes, *_problems(findings)]
    return Verdict(Status.PASS, seconds=ended.seconds, note="; ".join(words))


def _reading(symptom: Symptom, findings: Findings, summary: TraceSummary) -> Measured | None:
    counts = summary.counts
    match symptom.kind:
        case Kind.RECOMPILES:
            return counts.recompiles
        case Kind.GRAPH_BREAKS:
            return counts.graph_breaks
        case Kind.COMPILE_TIME:
            return counts.compile_time
        case Kind.SLOWDOWN:
            return slowdown(findings.compiled)
    if symptom.unit is Unit.RATIO:
        return extra_memory(findings.compiled)
    return Measured.exact(findings.peak_memory) if findings.peak_memory else None


def _why_not(ended: Run, findings: Findings) -> str:
    problems = _problems(findings)
    if problems:
        return "; ".join(problems)
    if not ended.ok:
        return f"{exit_name(ended)} while measuring"
    return "the program made no call of a compiled function or module"


def _problems(findings: Findings) -> list[str]:
    """Why calls could not be measured."""
    return [f"{call.name}: {call.problem}" for call in findings.compiled if call.problem]


def _measured_at(case: Case, timeout: float, symptom: Symptom) -> Measured:
    """The measurement on the baseline. Raises ReproKitError when it fails."""
    directory = case.path / "observe" / "baseline"
    override: Override = {**override_of(symptom.baseline), "measure": probes(symptom)}
    run = SubjectRun(directory, why="the baseline of what is measured", timeout=timeout)
    ended = run_overridden(case, run, override)
    findings = read_findings(directory / "probe")
    measured = _reading(symptom, findings, summarise(directory / "trace")) if ended.ok else None
    if measured is None:
        why = _why_not(ended, findings)
        raise StageError(f"The baseline of {symptom.text} cannot be measured: {why}; see {directory}.")
    return measured


def override_of(settings: Mapping[str, Any]) -> Override:
    """The probe's options (mode `override`) that apply `settings`."""
    config = {name: value for name, value in settings.items() if "." in name}
    arguments = cast(Override, {name: value for name, value in settings.items() if "." not in name})
    return {**arguments, "config": config} if config else arguments
