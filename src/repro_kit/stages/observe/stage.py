"""Observe: run the subject once, as it is, and say what failed."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.handles import ENVIRONMENT, FAILURE, OBSERVATION
from repro_kit.case.stage_results import Environment, Observation, ObservedFailure
from repro_kit.errors import Exit
from repro_kit.model.failure.failure import Kind, Status
from repro_kit.model.measure.symptom import FORMS
from repro_kit.runner.findings import Findings, read_findings
from repro_kit.runner.launch import Run, exit_name
from repro_kit.runner.subject import command
from repro_kit.session import failures, leftovers, symptoms, users_logs
from repro_kit.session.environment import environment
from repro_kit.session.options import Options
from repro_kit.session.script_run import run_subject, write_artifacts
from repro_kit.session.stop import Stop
from repro_kit.stages.observe import extra_runs
from repro_kit.trace import TraceSummary, summarise
from repro_kit.ui import Ui

_LOGS = "graph_breaks,recompiles"
_LARGEST_CACHE = 2 << 30  # bytes of the user's cache that are copied for a second look


def run(case: Case, options: Options, ui: Ui) -> None:
    """Run the subject, keep what it left, classify; raises Stop when nothing failed or eager fails too."""
    users_logs.check()
    left = leftovers.warnings()
    for sentence in left:
        ui.warn(sentence)
    ui.progress("running " + " ".join(command(case.file.subject)))
    observed, findings, summary = observe_once(case, options, ui)
    found = failures.found_in(case.path / "observe", observed, findings, summary)
    measured = symptoms.looked_for(case, options, ui, observed, findings, summary)
    found = [*measured.found, *found]
    cache: Path | None = None
    if not found and not options.check:
        with_cache = _with_users_cache(case, options, ui)
        if with_cache is not None:
            observed, findings, summary, found, cache = with_cache
    warnings = [*_warnings(case, findings), *left]
    eager, nobody = None, ""
    if found:
        told = symptoms.compare_with_eager(case, options, ui, found, observed, cache)
        eager, found, nobody = told.eager, list(told.found), told.nobody
        warnings += [*told.warnings, *filter(None, [nobody])]
    _write(case, observed, findings, summary, found, eager, warnings)
    if nobody:
        raise Stop(Exit.FAILED, f"Nobody is blamed: {nobody}.")
    extra_runs.runs(case, options, ui, found)
    _conclude(case, options, ui, observed, found, eager, measured.words)


def observe_once(
    case: Case, options: Options, ui: Ui, copy_of: Path | None = None
) -> tuple[Run, Findings, TraceSummary]:
    """One run under the probe, its output, trace and logs below `observe/`."""
    place = case.path / "observe"
    for name in ("probe", "trace", "logs", "artifacts"):
        shutil.rmtree(place / name, ignore_errors=True)
    for name in ("trace", "logs"):
        (place / name).mkdir(parents=True)
    observed = run_subject(
        case,
        place,
        timeout=options.timeout,
        env=_logging(place),
        copy_of=copy_of,
        on_tick=lambda seconds: ui.progress(f"running, {seconds:.0f} s"),
    )
    users_logs.give_back(place, ui)
    return observed, read_findings(place / "probe"), summarise(place / "trace")


def _logging(place: Path) -> dict[str, str]:
    """Trace and logs to the case, merged with what the user asked for."""
    logs = ",".join(filter(None, [os.environ.get("TORCH_LOGS"), _LOGS]))
    return {
        "TORCH_TRACE": str(place.absolute() / "trace"),
        "TORCH_LOGS": logs,
        "TORCH_LOGS_OUT": str(place.absolute() / "logs" / "torch.txt"),
    }


def _with_users_cache(
    case: Case, options: Options, ui: Ui
) -> tuple[Run, Findings, TraceSummary, list[ObservedFailure], Path] | None:
    """Nothing failed with an empty cache: look again with a copy of the user's (the path), which can be the bug."""
    cache = leftovers.users_cache(os.environ)
    size = sum(file.stat().st_size for file in cache.rglob("*") if file.is_file()) if cache.is_dir() else 0
    if not size or size > _LARGEST_CACHE:
        return None
    ui.progress("nothing failed; running once more with a copy of your compiler cache")
    observed, findings, summary = observe_once(case, options, ui, copy_of=cache)
    found = failures.found_in(case.path / "observe", observed, findings, summary)
    if not found:
        return None
    ui.warn(f"It fails only with the compiler cache in {cache}: a stale or wrong cache entry may be the bug.")
    return observed, findings, summary, found, cache


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
    found: list[ObservedFailure],
    eager: Status | None,
    warnings: list[str],
) -> None:
    first = next(iter(findings.processes), None)
    subject = case.file.subject
    if subject.form == "command" and first is not None and first.executable != subject.python:
        case.update(subject=replace(subject, python=first.executable))
    env = environment(case.file.subject.python, Path(subject.cwd))
    case.store(ENVIRONMENT, _with_findings(env, findings))
    observation = Observation(
        argv=tuple(command(case.file.subject)),
        exit_status=observed.exit_status,
        signal=observed.signal,
        timed_out=observed.timed_out,
        seconds=round(observed.seconds, 2),
        peak_memory=observed.peak_memory,
        python=first.executable if first else None,
        torch=first.torch if first else None,
        failures=tuple(found),
        artifacts=write_artifacts(case, summary),
        graphs=len(summary.compile_ids),
        last_step=summary.open_step,
        eager=eager,
        warnings=tuple(warnings),
    )
    case.store(OBSERVATION, observation)
    if found:
        case.store(FAILURE, found[0])


def _with_findings(env: Environment, findings: Findings) -> Environment:
    return replace(env, config=findings.config, threads=findings.threads or env.threads)


def _conclude(
    case: Case, options: Options, ui: Ui, observed: Run, found: list[ObservedFailure], eager: Status | None, told: str
) -> None:
    """The stage's last words; `told` is what was measured of the symptom that was asked for."""
    if not found:
        if options.check == str(Kind.ACCURACY):
            if told:
                ui.note(told)
            ui.done(f"nothing raised in {observed.seconds:.0f} s; looking for {options.check}")
            return
        ended = f"Nothing failed: {exit_name(observed)} after {observed.seconds:.0f} s"
        if told:
            raise Stop(Exit.NOTHING_FAILED, f"{ended}. {told}.")
        raise Stop(Exit.NOTHING_FAILED, f"{ended}. To look for what raises nothing, use --check with {FORMS}.")
    if told:
        ui.note(told)
    chosen = found[failures.index_of(options, found)]
    if eager == Status.FAIL:
        raise Stop(
            Exit.USER_BUG,
            f"It fails without torch.compile too, so the compiler is not to blame: {chosen.signature.summary()}"
            f"\n{failures.excerpt(chosen.failure)}",
        )
    case.update(signature=chosen.signature, failure_index=failures.index_of(options, found))
    ui.done(f"{chosen.failure.kind}: {chosen.signature.summary()}")
    for at, other in enumerate(found):
        if other is not chosen:
            ui.note(f"Also failed: {other.signature.summary()} (take it with --failure {at})")
    if chosen.failure.kind in (Kind.TIMEOUT, Kind.CRASH) and chosen.failure.step:
        ui.note(f"It was in this compile step: {chosen.failure.step}")
