"""Measure a symptom on the user's command, as it is or as a cell changes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from repro_kit.case.case import Case
from repro_kit.case.handles import SYMPTOM
from repro_kit.case.stage_results import ObservedFailure
from repro_kit.errors import StageError
from repro_kit.model.failure.failure import Kind, Measured, Status, Verdict
from repro_kit.model.failure.signature import signature_of
from repro_kit.model.measure.symptom import Symptom, Unit, parse_symptom
from repro_kit.model.measure.timing import extra_memory, slowdown, wrong_result
from repro_kit.probe.repro_probe.protocol.orders import Measure, Override
from repro_kit.runner.launch import Run, exit_name
from repro_kit.runner.processes_without_probe import ProcessesWithoutProbe
from repro_kit.runner.read_findings import Findings, read_findings
from repro_kit.session.options import ObserveOptions, SymptomOptions
from repro_kit.session.script.script_run import run_overridden
from repro_kit.session.verdicts import blame, eager, user_oracle
from repro_kit.session.verdicts.blame import Blame
from repro_kit.trace import TraceSummary, summarise
from repro_kit.ui import Ui


def wanted(options: SymptomOptions) -> Symptom | None:
    """The symptom that the user looks for, or the oracle."""
    return user_oracle.of_options(options) or (parse_symptom(options.check) if options.check else None)


def known(case: Case) -> Symptom | None:
    """The symptom that the case is about, its baseline measured; None when it is about something that fails."""
    if not case.holds(SYMPTOM) or case.file.signature is None:
        return None
    symptom = case.load(SYMPTOM)
    return symptom if symptom.kind == case.file.signature.kind else None


def settled(case: Case, timeout: float, ui: Ui, symptom: Symptom) -> Symptom:
    """`symptom` with its baseline measured, kept in the case for the cells."""
    if symptom.baseline:
        ui.progress("measuring the baseline")
        measured = _measured_at(case, timeout, symptom)
        symptom = symptom.with_reference(measured.value)
    case.store(SYMPTOM, symptom)
    return symptom


@dataclass(frozen=True)
class Looked:
    """What came of looking for a symptom: the failure where it is there, else what was measured, in words."""

    found: tuple[ObservedFailure, ...] = ()
    words: str = ""


def looked_for(
    case: Case, options: ObserveOptions, ui: Ui, ran: Run, findings: Findings, summary: TraceSummary
) -> Looked:
    """Look for the symptom that the user asked for in a run that ended well."""
    (case.path / SYMPTOM.name).unlink(missing_ok=True)
    symptom = wanted(options)
    if symptom is None:
        return Looked()
    if symptom.kind is Kind.ORACLE:
        return _asked(case, options.timeout, ui, symptom)
    if not ran.ok:
        return Looked(words=f"It does not end well ({exit_name(ran)}), so {symptom.text} was not looked at")
    symptom = settled(case, options.timeout, ui, symptom)
    place = case.path / "observe" / "measured"
    if probes(symptom) and symptom.kind is not Kind.ACCURACY:  # which the observed run has compared itself
        ui.progress("measuring the compiled calls")
        why = f"{symptom.kind} is measured on its compiled calls"
        ran = run_overridden(case, place, {"measure": probes(symptom)}, why=why, timeout=options.timeout)
        findings = read_findings(place / "probe")
    verdict = of_run(symptom, ran, findings, summary)
    if verdict.status is Status.CANNOT_TELL:
        if symptom.kind is Kind.ACCURACY:  # the graphs are still to be looked at
            return Looked(words=f"No call of the script could be compared with eager: {verdict.note}")
        raise StageError(f"{symptom.text} cannot be measured: {verdict.note}; see {place}.")
    if verdict.status is Status.FLAKY:
        return Looked(words=f"{symptom.text} cannot be told: {verdict.note}")
    if verdict.failure is None and symptom.kind is Kind.ACCURACY:
        return Looked(words=f"In the script {verdict.note}")
    if verdict.failure is None:
        return Looked(words=f"{symptom.text} was not seen: {verdict.note}")
    return Looked((ObservedFailure(verdict.failure, signature_of(verdict.failure), source="measured"),))


def _asked(case: Case, timeout: float, ui: Ui, oracle: Symptom) -> Looked:
    """What the user's oracle says of the subject as it is."""
    ui.progress("asking the oracle")
    case.store(SYMPTOM, oracle)
    verdict = user_oracle.ask(case, oracle, case.path / "observe" / "oracle", {}, timeout)
    if verdict.failure is None or verdict.failure.kind is not Kind.ORACLE:
        return Looked(words=f"The oracle does not call it bad: {verdict.note}")
    return Looked((ObservedFailure(verdict.failure, signature_of(verdict.failure), source="measured"),))


def compare_with_eager(
    case: Case,
    options: ObserveOptions,
    ui: Ui,
    found: list[ObservedFailure],
    observed: Run,
    copy_of: Path | None = None,
) -> Blame:
    """As `blame.begin`; what an oracle calls bad, it is asked about in eager."""
    if found[0].failure.kind is not Kind.ORACLE:
        return blame.begin(case, options, ui, found, observed, copy_of)
    place = case.path / "observe" / "eager"
    unseen = ProcessesWithoutProbe()
    verdict = user_oracle.ask(
        case, case.load(SYMPTOM), place, eager.PROBE, options.timeout, eager.VARIABLES, on_tick=unseen.look
    )
    doubt = eager.doubt(place / "probe", unseen)
    if doubt:
        why = f"Whether the oracle calls it bad without torch.compile cannot be told: {doubt}."
        return Blame(Status.CANNOT_TELL, tuple(found), (why,))
    if verdict.status is Status.CANNOT_TELL:
        return Blame(
            Status.INVALID, tuple(found), (f"Without torch.compile the oracle tells nothing: {verdict.note}.",)
        )
    if verdict.failure is not None and verdict.failure.kind is not Kind.ORACLE:
        why = f"Without torch.compile the oracle calls it bad in another way: {verdict.note}."
        return Blame(Status.INVALID, tuple(found), (why,))
    return Blame(verdict.status, tuple(found))


def probes(symptom: Symptom) -> tuple[Measure, ...]:
    """What the probe must measure (mode `override`) for `symptom`; empty: any run shows it."""
    if symptom.kind is Kind.SLOWDOWN:
        return ("time",)
    if symptom.kind is Kind.MEMORY and symptom.unit is Unit.RATIO:
        return ("memory",)
    return ("accuracy",) if symptom.kind is Kind.ACCURACY else ()


def of_run(symptom: Symptom, ran: Run, findings: Findings, summary: TraceSummary) -> Verdict:
    """What a run under the trace, with the probe as `probes` wants it, says about `symptom`."""
    if symptom.kind is Kind.ACCURACY:
        return _compared(ran, findings)
    measured = _reading(symptom, findings, summary)
    if measured is None:
        return Verdict(Status.CANNOT_TELL, seconds=ran.seconds, note=_why_not(ran, findings))
    return symptom.verdict(measured, ran.seconds)


def _compared(ran: Run, findings: Findings) -> Verdict:
    """Whether the compiled calls do what they do in eager."""
    failure = wrong_result(findings.compiled)
    if failure is not None:
        return Verdict(Status.FAIL, failure, ran.seconds, note=f"{signature_of(failure).summary()} {failure.text}")
    count = sum(call.compared for call in findings.compiled)
    if not count:
        return Verdict(Status.CANNOT_TELL, seconds=ran.seconds, note=_why_not(ran, findings))
    notes = dict.fromkeys(call.note for call in findings.compiled if call.note)
    words = [f"{count} compiled call{'s agree' if count > 1 else ' agrees'} with eager", *notes]
    return Verdict(Status.PASS, seconds=ran.seconds, note="; ".join(words))


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


def _why_not(ran: Run, findings: Findings) -> str:
    problems = [f"{call.name}: {call.problem}" for call in findings.compiled if call.problem]
    if problems:
        return "; ".join(problems)
    if not ran.ok:
        return f"{exit_name(ran)} while measuring"
    return "no call of a function or module that torch.compile was given was seen"


def _measured_at(case: Case, timeout: float, symptom: Symptom) -> Measured:
    """The measure on the baseline. Raises ReproKitError when it cannot be taken there."""
    place = case.path / "observe" / "baseline"
    override: Override = {**override_of(symptom.baseline), "measure": probes(symptom)}
    ran = run_overridden(case, place, override, why="the baseline of what is measured", timeout=timeout)
    findings = read_findings(place / "probe")
    measured = _reading(symptom, findings, summarise(place / "trace")) if ran.ok else None
    if measured is None:
        why = _why_not(ran, findings)
        raise StageError(f"The baseline of {symptom.text} cannot be measured: {why}; see {place}.")
    return measured


def override_of(settings: Mapping[str, Any]) -> Override:
    """The probe's options (mode `override`) that put `settings` in force."""
    config = {name: value for name, value in settings.items() if "." in name}
    arguments = cast(Override, {name: value for name, value in settings.items() if "." not in name})
    return {**arguments, "config": config} if config else arguments
