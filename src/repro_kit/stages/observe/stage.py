"""Observe: run the subject once, as it is, and say what failed."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from repro_kit.case.case import Case
from repro_kit.case.handles import ENVIRONMENT, FAILURE, OBSERVATION
from repro_kit.case.stage_results import Environment, Observation, ObservedFailure
from repro_kit.errors import Exit
from repro_kit.model.failure.failure import Kind, Status
from repro_kit.model.measure.symptom import FORMS, Symptom
from repro_kit.runner.launch import Run, exit_name
from repro_kit.runner.read_findings import Findings, read_findings
from repro_kit.runner.subject_start import command
from repro_kit.session.options import ObserveOptions
from repro_kit.session.script import leftovers, users_logs
from repro_kit.session.script.environment import environment
from repro_kit.session.script.script_run import run_subject, write_artifacts
from repro_kit.session.stop import Stop
from repro_kit.session.verdicts import blame, failures, symptoms
from repro_kit.session.verdicts.blame import Blame
from repro_kit.stages.observe import extra_runs
from repro_kit.trace import TraceSummary, summarise
from repro_kit.ui import Ui

_LOGS = "graph_breaks,recompiles"
_RECORDED = 512 << 20  # bytes of tensor values that are recorded of one process
_LARGEST_CACHE = 2 << 30  # bytes of the user's cache that are copied for a second look


def run(case: Case, options: ObserveOptions, ui: Ui) -> None:
    """Run the subject, keep what it left, classify; raises Stop when nothing failed or eager fails too."""
    users_logs.check()
    left = leftovers.warnings()
    for sentence in left:
        ui.warn(sentence)
    symptom = symptoms.wanted(options)
    ui.progress("running " + " ".join(command(case.file.subject)))
    observed, findings, summary = observe_once(case, options, ui, symptom)
    found = failures.found_in(case.path / "observe", observed, findings, summary)
    measured = symptoms.looked_for(case, options, ui, observed, findings, summary)
    found = [*measured.found, *found]
    cache: Path | None = None
    if not found and symptom is None:
        with_cache = _with_users_cache(case, options, ui)
        if with_cache is not None:
            observed, findings, summary, found, cache = with_cache
    told = Blame(None, tuple(found))
    if found:
        told = symptoms.compare_with_eager(case, options, ui, found, observed, cache)
    warnings = [*_warnings(case, findings), *left, *told.warnings, *filter(None, [told.nobody])]
    _write(case, observed, findings, summary, told, warnings)
    if told.nobody:
        raise Stop(Exit.FAILED, f"Nobody is blamed: {told.nobody}.")
    extra_runs.runs(case, options, ui)
    _conclude(case, options, ui, observed, told, measured.words)


def observe_once(
    case: Case, options: ObserveOptions, ui: Ui, symptom: Symptom | None = None, copy_of: Path | None = None
) -> tuple[Run, Findings, TraceSummary]:
    """One run under the probe: its output, trace, logs and graphs go below `observe/`.

    Graphs are not recorded beside a `symptom` that is measured: recording would be measured with it.
    """
    place = case.path / "observe"
    for name in ("probe", "trace", "logs", "artifacts"):
        shutil.rmtree(place / name, ignore_errors=True)
    for name in ("trace", "logs"):
        (place / name).mkdir(parents=True)
    observed = run_subject(
        case,
        place,
        why="observe: what fails?" if copy_of is None else "observe: does it fail with the user's compiler cache?",
        timeout=options.timeout,
        **_probed(symptom),
        env=_logging(place),
        copy_of=copy_of,
        on_tick=lambda seconds: ui.progress(f"running, {seconds:.0f} s"),
    )
    users_logs.give_back(place, ui)
    return observed, read_findings(place / "probe"), summarise(place / "trace")


def _probed(symptom: Symptom | None) -> dict[str, Any]:
    """The probe's mode and options for the observed run."""
    if symptom is None:
        return {"mode": "capture", "probe": {"limit": _RECORDED}}
    if symptom.kind is Kind.ACCURACY:  # the calls are held against eager in the same run
        return {"mode": "override", "probe": {"measure": ["accuracy"], "record": True, "limit": _RECORDED}}
    return {"mode": "observe"}


def _logging(place: Path) -> dict[str, str]:
    """Trace and logs to the case, merged with what the user asked for."""
    logs = ",".join(filter(None, [os.environ.get("TORCH_LOGS"), _LOGS]))
    return {
        "TORCH_TRACE": str(place.absolute() / "trace"),
        "TORCH_LOGS": logs,
        "TORCH_LOGS_OUT": str(place.absolute() / "logs" / "torch.txt"),
    }


def _with_users_cache(
    case: Case, options: ObserveOptions, ui: Ui
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
    told: Blame,
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
        failures=told.found,
        artifacts=write_artifacts(case, summary),
        graphs=len(summary.compile_ids),
        last_step=summary.open_step,
        eager=told.eager,
        warnings=tuple(warnings),
        settled=told.settled,
        recorded=any((case.path / "observe" / "probe").glob("events-*.jsonl")),
        compared=sum(call.compared for call in findings.compiled),
    )
    case.store(OBSERVATION, observation)
    if told.found:
        case.store(FAILURE, told.found[0])


def _with_findings(env: Environment, findings: Findings) -> Environment:
    return replace(env, config=findings.config, threads=findings.threads or env.threads)


def _conclude(case: Case, options: ObserveOptions, ui: Ui, observed: Run, told: Blame, measured: str) -> None:
    """The stage's last words; `measured` is what was measured of the symptom that was asked for."""
    if not told.found:
        if options.check == str(Kind.ACCURACY):
            if measured:
                ui.note(measured)
            ui.done(f"nothing raised in {observed.seconds:.0f} s; looking for {options.check}")
            return
        ended = f"Nothing failed: {exit_name(observed)} after {observed.seconds:.0f} s"
        if measured:
            raise Stop(Exit.NOTHING_FAILED, f"{ended}. {measured}.")
        raise Stop(Exit.NOTHING_FAILED, f"{ended}. To look for what raises nothing, use --check with {FORMS}.")
    if measured:
        ui.note(measured)
    found = list(told.found)
    index = failures.index_of(options.failure, found)
    chosen = found[index]
    if told.eager == Status.FAIL:
        raise Stop(
            Exit.USER_BUG,
            f"It fails without torch.compile too, so the compiler is not to blame: {chosen.signature.summary()}"
            f"\n{failures.excerpt(chosen.failure)}",
        )
    if not told.settled:  # what a graph must show, if one is to settle it
        chosen = blame.as_wrong_result(chosen)
    case.update(signature=chosen.signature, failure_index=index)
    ui.done(f"{chosen.failure.kind}: {chosen.signature.summary()}")
    for at, other in enumerate(found):
        if at != index:
            ui.note(f"Also failed: {other.signature.summary()} (take it with --failure {at})")
    if chosen.failure.kind in (Kind.TIMEOUT, Kind.CRASH) and chosen.failure.step:
        ui.note(f"It was in this compile step: {chosen.failure.step}")
