"""Observe: run the unchanged subject once, and report what failed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.handles import ENVIRONMENT, FAILURE, OBSERVATION, ROUNDING
from repro_kit.case.stage_results import Environment, Observation, ObservedFailure
from repro_kit.errors import Exit
from repro_kit.model.failure.failure import Kind, Status
from repro_kit.model.failure.signature import in_words
from repro_kit.model.measure.symptom import Symptom
from repro_kit.probe.repro_probe.protocol.entries import CALLS
from repro_kit.runner.compiler import users_cache
from repro_kit.runner.launch import Run, exit_name
from repro_kit.runner.read_findings import Findings, read_findings
from repro_kit.runner.recorded import read_recorded
from repro_kit.runner.subject_start import command
from repro_kit.session.options import ObserveOptions
from repro_kit.session.script import leftovers, users_logs
from repro_kit.session.script.interpreter_environment import begin_environment, environment
from repro_kit.session.script.script_run import SubjectRun, run_subject, write_artifacts
from repro_kit.session.script.stuck import CompileWatch
from repro_kit.session.stop import Stop
from repro_kit.session.verdicts import blame, by_rounding, not_begun, observed_failures, symptoms, users_own
from repro_kit.session.verdicts.blame import Blame
from repro_kit.session.verdicts.deadlock_watch import DeadlockWatch
from repro_kit.session.verdicts.lacking_device import lacks_device
from repro_kit.session.verdicts.lacking_resource import lacks_resource
from repro_kit.session.verdicts.rank_report import RankReport, rank_report
from repro_kit.stages.observe import extra_runs, nothing_failed
from repro_kit.trace import TraceSummary, summarise
from repro_kit.ui import Ui

_LOGS = "graph_breaks,recompiles"
_RECORDED = 512 << 20  # bytes of tensor values that one process records
_NAMED = 3  # other failures
_LARGEST_CACHE = 2 << 30  # bytes; a larger cache of the user's is not copied for a second run


def run(case: Case, options: ObserveOptions, ui: Ui) -> None:
    """Run the subject, keep its files, classify its failures. Raises Stop when nothing failed, or eager fails too."""
    users_logs.check()
    (case.path / ROUNDING.name).unlink(missing_ok=True)
    notes = tuple(filter(None, [case.file.subject_note, *leftovers.warnings()]))
    for sentence in notes:
        ui.warn(sentence)
    symptom = symptoms.requested(options)
    ui.progress(f"running {case.file.subject}")
    described = _described_beside(case, symptom)
    seen = _observe_once(case, options, ui, symptom)
    observed, findings, summary = seen.run, seen.findings, seen.summary
    failures = observed_failures.found_in(case.path / "observe", observed, findings, summary)
    measured = symptoms.look_for(case, options, ui, observed, findings, summary)
    if symptom is not None and symptom.kind.policy.eager_raises:  # what a script catches may be raised in eager too
        failures = [failure for failure in failures if failure.source not in ("trace", "log")]
    failures = [*measured.failures, *failures]
    cache: Path | None = None
    if not failures and symptom is None:
        with_cache = _with_users_cache(case, options, ui)
        if with_cache is not None:
            seen, failures, cache = with_cache
            observed, findings, summary = seen.run, seen.findings, seen.summary
    blamed = Blame(None, tuple(failures))
    index = observed_failures.index_of(options.failure, failures) if failures else 0
    lacking = lacks_resource(failures[index].failure) if failures else None
    if failures and lacking is None and not summary.compile_ids:
        not_begun.refuse(failures[index].failure, case.file.subject)
    if failures and lacking is None:
        waits = seen.deadlock and failures[index].failure.kind is Kind.DEADLOCK
        of_a_graph = not waits and not (observed.timed_out and _compiled_nothing(case, summary))
        blamed = symptoms.compare_with_eager(case, options, ui, failures, observed, cache, of_a_graph=of_a_graph)
    ranks = rank_report(case.path / "observe" / "trace", findings)
    for sentence in ranks.sentences:
        ui.warn(sentence)
    for line in ranks.lines:
        ui.note(line)
    parted = observed_failures.parted_by(failures) if failures else ""
    if parted:
        ui.warn(parted)
    remarks = filter(None, [parted, seen.ended_early, blamed.nobody])
    warnings = [*_warnings(case, findings), *ranks.sentences, *notes, *blamed.warnings, *remarks]
    _write(case, observed, findings, summary, blamed, warnings, ranks, described, users_cache=cache is not None)
    if lacking is not None:
        raise lacking
    if blamed.nobody:
        raise Stop(Exit.FAILED, f"It cannot be told whether the compiler is at fault: {blamed.nobody}.")
    extra_runs.runs(case, options, ui)
    if blamed.rounding is not None:
        by_rounding.conclude(case, ui, options.treat_rounding_as)
    _conclude(case, options, ui, seen, blamed, measured.words, symptom)


def _described_beside(case: Case, symptom: Symptom | None) -> Callable[[], Environment]:
    """Begin to read the environment while the subject runs, unless that would change a measurement."""
    subject = case.file.subject
    if symptom is not None or subject.form == "command":  # only the run of a command shows its interpreter
        return lambda: environment(case.file.subject.python, Path(subject.cwd))
    return begin_environment(subject.python, Path(subject.cwd)).result


@dataclass(frozen=True)
class _ObservedRun:
    """One observed run; `ended_early` says why it was taken never to end."""

    run: Run
    findings: Findings
    summary: TraceSummary
    ended_early: str = ""
    deadlock: bool = False  # the ranks wait for each other, as they may without torch.compile


def _observe_once(
    case: Case, options: ObserveOptions, ui: Ui, symptom: Symptom | None = None, copy_of: Path | None = None
) -> _ObservedRun:
    """Run the subject once under the probe. Output, trace, logs and graphs go below `observe/`.

    With a `symptom` to measure on the script, no graphs are recorded: recording would change the measurement.
    """
    directory = case.path / "observe"
    for name in ("probe", "trace", "logs", "artifacts"):
        shutil.rmtree(directory / name, ignore_errors=True)
    for name in ("trace", "logs"):
        (directory / name).mkdir(parents=True)
    watch = CompileWatch(directory, ui, f"running {case.file.subject}", decides=not options.patient)
    deadlock = DeadlockWatch(directory / "probe")

    def tick(seconds: float) -> None:
        watch.tick(seconds)
        if not options.patient:
            deadlock.look(seconds)

    run = SubjectRun(
        directory,
        why="observe: what fails?" if copy_of is None else "observe: does it fail with the user's compiler cache?",
        timeout=options.timeout,
        env=_logging(directory),
        copy_of=copy_of,
        on_tick=tick,
        on_interrupt=watch.interrupted,
        ui=ui,
    )
    observed = run_subject(case, _probed(run, symptom))
    reason = watch.reason or deadlock.reason
    if reason:
        ui.warn(reason)
    users_logs.give_back(directory, ui)
    return _ObservedRun(
        observed, read_findings(directory / "probe"), summarise(directory / "trace"), reason, bool(deadlock.reason)
    )


def _probed(run: SubjectRun, symptom: Symptom | None) -> SubjectRun:
    """`run` with the probe's mode and options for the observed run."""
    if symptom is None or symptom.kind is Kind.COMPILE_GROWTH:
        return replace(run, mode="capture", probe={"limit": _RECORDED})
    if symptom.kind.policy.compared:  # the same run compares the calls with eager
        measure = symptoms.probes(symptom)
        return replace(run, mode="override", probe={"measure": measure, "record": True, "limit": _RECORDED})
    return run


def _logging(directory: Path) -> dict[str, str]:
    """Variables that send trace and logs to the case, with the user's own log options."""
    logs = ",".join(filter(None, [os.environ.get("TORCH_LOGS"), _LOGS]))
    return {
        "TORCH_TRACE": str(directory.absolute() / "trace"),
        "TORCH_LOGS": logs,
        "TORCH_LOGS_OUT": str(directory.absolute() / "logs" / "torch.txt"),
    }


def _with_users_cache(
    case: Case, options: ObserveOptions, ui: Ui
) -> tuple[_ObservedRun, list[ObservedFailure], Path] | None:
    """Nothing failed with an empty cache: run again with a copy of the user's cache, which may be the bug."""
    cache = users_cache(os.environ)
    size = leftovers.size_of(cache)
    if not size or size > _LARGEST_CACHE:
        return None
    ui.progress("nothing failed; running once more with a copy of your compiler cache")
    seen = _observe_once(case, options, ui, copy_of=cache)
    failures = observed_failures.found_in(case.path / "observe", seen.run, seen.findings, seen.summary)
    if not failures:
        return None
    ui.warn(f"The program fails only with the compiler cache in {cache}: a stale or wrong cache entry may be the bug.")
    return seen, failures, cache


def _warnings(case: Case, findings: Findings) -> list[str]:
    warnings = [
        f"The probe had a problem: {text.strip().splitlines()[-1]}" for text in findings.problems if text.strip()
    ]
    if not findings.processes:
        warnings.append("torch was not imported where the probe could see it (python -I, -E or -S hide the probe).")
    return warnings


def _write(
    case: Case,
    observed: Run,
    findings: Findings,
    summary: TraceSummary,
    blamed: Blame,
    warnings: list[str],
    ranks: RankReport,
    described: Callable[[], Environment],
    *,
    users_cache: bool,
) -> None:
    first = next(iter(findings.processes), None)
    subject = case.file.subject
    if subject.form == "command" and first is not None and first.executable != subject.python:
        case.update(subject=replace(subject, python=first.executable))
    case.store(ENVIRONMENT, _with_findings(described(), findings))
    observation = Observation(
        argv=tuple(command(case.file.subject)),
        exit_status=observed.exit_status,
        signal=observed.signal,
        timed_out=observed.timed_out,
        seconds=round(observed.seconds, 2),
        peak_memory=observed.peak_memory,
        python=first.executable if first else None,
        torch=first.torch if first else None,
        failures=blamed.failures,
        artifacts=write_artifacts(case, summary),
        graphs=len(summary.compile_ids),
        eager=blamed.eager,
        warnings=tuple(warnings),
        ranks=ranks.lines,
        settled=blamed.settled,
        recorded=any((case.path / "observe" / "probe").glob("events-*.jsonl")),
        compared=sum(call.compared for call in findings.compiled),
        users_cache=users_cache,
    )
    case.store(OBSERVATION, observation)
    if blamed.rounding is not None:
        case.store(ROUNDING, blamed.rounding)
    if blamed.failures:
        case.store(FAILURE, blamed.failures[0])


def _compiled_nothing(case: Case, summary: TraceSummary) -> bool:
    """Whether the run had not begun to compile or to export anything, so that no graph of it can hang."""
    return not summary.compile_ids and not summary.open_step and not any(_entries(case))


def _with_findings(env: Environment, findings: Findings) -> Environment:
    return replace(env, config=findings.config, threads=findings.threads or env.threads)


def _entries(case: Case) -> Iterator[str]:
    """The way to compile that each recorded process used last, where that is torch.export or AOTInductor."""
    for process in read_recorded(case.path / "observe" / "probe"):
        settings = process.compile_settings()
        if settings is not None and settings["backend"] in CALLS:
            yield settings["backend"]


def _nothing_failed(
    case: Case, options: ObserveOptions, ui: Ui, seen: _ObservedRun, measured: str, symptom: Symptom | None
) -> None:
    """Say that nothing failed. Raises Stop, unless a graph may still show what the user asked for."""
    if symptom is not None and symptom.kind.policy.of_graphs:
        if measured:
            ui.note(measured)
        ui.done(f"nothing raised; looking for {options.check} in each graph")
        return
    recorded = read_recorded(case.path / "observe" / "probe")
    graphs = max(len(seen.summary.compile_ids), sum(len(process.graphs) for process in recorded))
    why = nothing_failed.why_nothing(os.environ, saw_torch=bool(seen.findings.processes))
    ended = f"{exit_name(seen.run)} after {seen.run.seconds:.0f} s"
    subject = case.file.subject
    words = subject.argv[1:] if case.file.exported else subject.words  # the script for an exported program is ours
    raise Stop(Exit.NOTHING_FAILED, nothing_failed.sentences(ended, graphs, measured, words, why))


def _conclude(
    case: Case,
    options: ObserveOptions,
    ui: Ui,
    seen: _ObservedRun,
    blamed: Blame,
    measured: str,
    symptom: Symptom | None,
) -> None:
    """Print how the stage ended. `measured`: the measurement of the symptom that the user asked for, in words."""
    if not blamed.failures:
        _nothing_failed(case, options, ui, seen, measured, symptom)
        return
    if measured:
        ui.note(measured)
    failures = list(blamed.failures)
    index = observed_failures.index_of(options.failure, failures)
    chosen = failures[index]
    if blamed.needs is not None:
        needs = blamed.needs.failure
        raise Stop(Exit.CANNOT_RUN, f"{lacks_device(needs)}\n{observed_failures.excerpt(needs)}")
    if blamed.deadlock:
        ui.warn("The ranks wait for each other without torch.compile too, so the compiler is not to blame.")
    elif blamed.eager == Status.FAIL:
        raise users_own.stop(blamed.in_eager or chosen)
    raised = in_words(chosen.signature, chosen.failure)
    if not blamed.settled:  # the failure that a graph must show to settle it
        chosen = blame.as_wrong_result(chosen)
    words = f"{chosen.failure.kind}: {in_words(chosen.signature, chosen.failure)}"
    if chosen.failure.kind is Kind.ACCURACY and chosen.failure.difference is None and blamed.eager is None:
        words = f"the script raises {raised} (not yet known: whether it does so without torch.compile)"
    case.update(signature=chosen.signature, failure_index=index)
    ui.done(words)
    for entry in _entries(case):
        ui.note(f"The model is compiled by {CALLS[entry]}.")
    others = [
        f"--failure {number}: {in_words(failure.signature, failure.failure)}"
        for number, failure in enumerate(failures)
        if number != index
    ]
    if others:
        more = f"; and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        ui.note(f"Also failed, to be chosen with {'; '.join(others[:_NAMED])}{more}.")
    if chosen.failure.kind.policy.ends_process and chosen.failure.step:
        ui.note(f"The program was in this compile step: {chosen.failure.step}")
    if chosen.failure.kind is Kind.TIMEOUT and chosen.source == "exception":
        ui.note(f"The script's own alarm ended the compile ({chosen.failure.text}). It may hang, or be slow.")
