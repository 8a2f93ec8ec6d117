"""Observe: run the unchanged subject once, and report what failed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.stage_results import ENVIRONMENT, FAILURE, OBSERVATION, ROUNDING, Environment, Observation
from repro_kit.errors import Exit, Stop
from repro_kit.failure.kinds import Kind
from repro_kit.failure.symptom import Symptom
from repro_kit.options.stages import ObserveOptions
from repro_kit.probe.repro_probe.protocol.orders import LOGS
from repro_kit.runner.compiler import users_cache
from repro_kit.runner.read_findings import Findings, read_findings
from repro_kit.runner.subject_start import command
from repro_kit.runner.supervised import exit_name
from repro_kit.stages.observe.conclusion import ObservedRun, conclude, entries
from repro_kit.subject import users_environment
from repro_kit.subject.script_run import SubjectRun, run_subject, write_artifacts
from repro_kit.subject.stuck import CompileWatch
from repro_kit.subject.users_environment import begin_environment, environment
from repro_kit.trace import TraceSummary, summarise
from repro_kit.ui import Ui
from repro_kit.verdicts import by_rounding, not_the_compiler, observed_failures, symptoms
from repro_kit.verdicts.blame import Blame
from repro_kit.verdicts.deadlocks import DeadlockWatch
from repro_kit.verdicts.not_the_compiler import lacks_resource
from repro_kit.verdicts.ranks import RankReport, rank_report

#: Values of --logs that stand for several options of TORCH_LOGS.
_LOG_PRESETS = {
    "dynamo": "+dynamo,graph_breaks,guards,recompiles,trace_source,trace_bytecode,bytecode",
    "aot": "+aot,aot_graphs,aot_joint_graph",
    "inductor": "+inductor,schedule,fusion,output_code,post_grad_graphs",
    "dynamic": "+dynamic,guards,recompiles",
    "perf": "perf_hints,graph_breaks,recompiles,cudagraphs",
}


def run_again_for_logs(case: Case, options: ObserveOptions, ui: Ui) -> None:
    """Make the runs that the options ask for; their files go below `observe/`."""
    if options.logs or options.debug_artifacts or options.function:
        ui.progress("running again to collect more")
        ended = _extra_run(case, options, "extra", _extra_variables(case, options))
        ui.note(f"More logs are in {case.path / 'observe' / 'extra'} ({ended}).")


def _extra_variables(case: Case, options: ObserveOptions) -> dict[str, str]:
    env: dict[str, str] = {}
    if options.logs:
        env["TORCH_LOGS"] = _LOG_PRESETS.get(options.logs, options.logs)
    if options.debug_artifacts:
        env["TORCH_COMPILE_DEBUG"] = "1"
        env["TORCH_COMPILE_DEBUG_DIR"] = str(case.path.absolute() / "observe" / "extra")
    if options.function:
        env["TORCHDYNAMO_DEBUG_FUNCTION"] = options.function
    return env


def _extra_run(case: Case, options: ObserveOptions, name: str, variables: dict[str, str]) -> str:
    directory = case.path / "observe" / name
    run = SubjectRun(directory, why="further logs were asked for", timeout=options.timeout, env=variables)
    return exit_name(run_subject(case, run))


_RECORDED = 512 << 20  # bytes of tensor values that one process records
_LARGEST_CACHE = 2 << 30  # bytes; a larger cache of the user's is not copied for a second run


def run(case: Case, options: ObserveOptions, ui: Ui) -> None:
    """Run the subject, keep its files, classify its failures. Raises Stop when nothing failed, or eager fails too."""
    users_environment.check_users_logs()
    (case.path / ROUNDING.name).unlink(missing_ok=True)
    notes = tuple(filter(None, [case.file.subject_note, *users_environment.warnings_of_leftovers()]))
    for sentence in notes:
        ui.warn(sentence)
    symptom = symptoms.requested(options)
    ui.progress(f"running {case.file.subject}")
    described = _described_beside(case, symptom)
    seen = _observe_once(case, options, ui, symptom)
    failures = list(seen.failures)
    measured = symptoms.look_for(case, options, ui, seen.run, seen.findings, seen.summary)
    if symptom is not None and symptom.kind.policy.eager_raises:  # what a script catches may be raised in eager too
        failures = [failure for failure in failures if failure.source not in ("trace", "log")]
    failures = [*measured.failures, *failures]
    if not failures and symptom is None:
        seen = _with_users_cache(case, options, ui) or seen
        failures = list(seen.failures)
    blamed = Blame(None, tuple(failures))
    chosen = failures[observed_failures.index_of(options.failure, failures)].failure if failures else None
    lacking = lacks_resource(chosen) if chosen else None
    if chosen and lacking is None:
        if not seen.summary.compile_ids:
            not_the_compiler.refuse_what_did_not_begin(chosen, case.file.subject)
        waits = seen.deadlock and chosen.kind is Kind.DEADLOCK
        of_a_graph = not waits and not (seen.run.timed_out and _compiled_nothing(case, seen.summary))
        blamed = symptoms.begin_blame(case, options, ui, failures, seen.run, seen.users_cache, of_a_graph=of_a_graph)
    ranks = rank_report(case.path / "observe" / "trace", seen.findings)
    for sentence in ranks.sentences:
        ui.warn(sentence)
    for line in ranks.lines:
        ui.note(line)
    parted = observed_failures.parted_by(failures) if failures else ""
    if parted:
        ui.warn(parted)
    remarks = filter(None, [parted, seen.ended_early, blamed.nobody])
    warnings = [*_warnings(seen.findings), *ranks.sentences, *notes, *blamed.warnings, *remarks]
    case.store(ENVIRONMENT, _environment(case, seen.findings, described))
    _write(case, seen, blamed, warnings, ranks)
    if lacking is not None:
        raise lacking
    if blamed.nobody:
        raise Stop(Exit.FAILED, f"It cannot be told whether the compiler is at fault: {blamed.nobody}.")
    run_again_for_logs(case, options, ui)
    if blamed.rounding is not None:
        by_rounding.conclude(case, ui, options.treat_rounding_as)
    conclude(case, options, ui, seen, blamed, measured.words, symptom)


def _described_beside(case: Case, symptom: Symptom | None) -> Callable[[], Environment]:
    """Begin to read the environment while the subject runs, unless that would change a measurement."""
    subject = case.file.subject
    if symptom is not None or subject.form == "command":  # only the run of a command shows its interpreter
        return lambda: environment(case.file.subject.python, Path(subject.cwd))
    return begin_environment(subject.python, Path(subject.cwd)).result


def _observe_once(
    case: Case, options: ObserveOptions, ui: Ui, symptom: Symptom | None = None, copy_of: Path | None = None
) -> ObservedRun:
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
        kernels=directory / "kernels",
        on_tick=tick,
        on_interrupt=watch.interrupted,
        ui=ui,
    )
    observed = run_subject(case, _probed(run, symptom))
    reason = watch.reason or deadlock.reason
    if reason:
        ui.warn(reason)
    users_environment.give_back_users_logs(directory, ui)
    findings, summary = read_findings(directory / "probe"), summarise(directory / "trace")
    failures = observed_failures.found_in(directory, observed, findings, summary)
    return ObservedRun(observed, findings, summary, tuple(failures), reason, bool(deadlock.reason), copy_of)


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
    logs = ",".join(filter(None, [os.environ.get("TORCH_LOGS"), LOGS]))
    return {
        "TORCH_TRACE": str(directory.absolute() / "trace"),
        "TORCH_LOGS": logs,
        "TORCH_LOGS_OUT": str(directory.absolute() / "logs" / "torch.txt"),
    }


def _with_users_cache(case: Case, options: ObserveOptions, ui: Ui) -> ObservedRun | None:
    """Run again with a copy of the user's compiler cache, which may be the bug; None if that does not fail either."""
    cache = users_cache(os.environ)
    size = users_environment.size_of_cache(cache)
    if not size or size > _LARGEST_CACHE:
        return None
    ui.progress("nothing failed; running once more with a copy of your compiler cache")
    seen = _observe_once(case, options, ui, copy_of=cache)
    if not seen.failures:
        return None
    ui.warn(
        f"The program passed once with an empty compiler cache, and failed once with a copy of the one in {cache}: a "
        "stale or wrong cache entry may be the bug, unless the program fails now and then."
    )
    return seen


def _warnings(findings: Findings) -> list[str]:
    warnings = [
        f"The probe had a problem: {text.strip().splitlines()[-1]}" for text in findings.problems if text.strip()
    ]
    if not findings.processes:
        warnings.append("torch was not imported where the probe could see it (python -I, -E or -S hide the probe).")
    return warnings


def _environment(case: Case, findings: Findings, described: Callable[[], Environment]) -> Environment:
    """The environment of the run. The run of a command also shows its interpreter, which goes to the case first."""
    first, subject = next(iter(findings.processes), None), case.file.subject
    if subject.form == "command" and first is not None and first.executable != subject.python:
        case.update(subject=replace(subject, python=first.executable))
    env = described()
    return replace(env, config=findings.config, threads=findings.threads or env.threads)


def _write(case: Case, seen: ObservedRun, blamed: Blame, warnings: list[str], ranks: RankReport) -> None:
    observed, summary = seen.run, seen.summary
    first = next(iter(seen.findings.processes), None)
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
        compared=sum(call.compared for call in seen.findings.compiled),
        users_cache=seen.users_cache is not None,
    )
    case.store(OBSERVATION, observation)
    if blamed.rounding is not None:
        case.store(ROUNDING, blamed.rounding)
    if blamed.failures:
        case.store(FAILURE, blamed.failures[0])


def _compiled_nothing(case: Case, summary: TraceSummary) -> bool:
    """Whether the run had not begun to compile or to export anything, so that no graph of it can hang."""
    return not summary.compile_ids and not summary.open_step and not any(entries(case))
