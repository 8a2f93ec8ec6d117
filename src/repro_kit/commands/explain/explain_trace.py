"""Explain: what a trace says, and what to do about it; from a log, a case, or a run of the script."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.lock import alone
from repro_kit.commands.explain.suggestion_trials import try_all, why_untried
from repro_kit.errors import StageError, UsageError
from repro_kit.explain.advice import suggestions
from repro_kit.explain.judge import Ruling, Trial
from repro_kit.explain.sections import advice_section
from repro_kit.explain.sentences import sentences
from repro_kit.explain.suggestion import Suggestion
from repro_kit.explain.tried import Tried
from repro_kit.files import write_atomic
from repro_kit.pipeline.registry import REGISTRY, Stage, settings_of
from repro_kit.runner.launch import exit_name
from repro_kit.runner.subject import command
from repro_kit.session.explained import Explained, context_of, read_before, read_text
from repro_kit.session.options import ObserveOptions
from repro_kit.session.script import users_logs
from repro_kit.session.script.script_run import run_subject
from repro_kit.session.strangers.trust import agree
from repro_kit.trace.insights import Insights, gather
from repro_kit.ui import Ui

_RUN = Path("explain") / "run"
_SETTINGS = "settings.txt"  # what the run depended on; another text makes it stale
_STAGE = Stage("explain", __name__, settings=("timeout",))


@dataclass(frozen=True)
class TraceSource:
    """A trace and what it is of. `state`: the settings and files that the run of a case's trace depended on."""

    trace: Path
    name: str
    case: Case | None = None
    state: str = ""


def source_of_case(case: Case, options: ObserveOptions, ui: Ui, *, as_it_is: bool = False) -> TraceSource:
    """The trace of the case's script, which is run where there is none, or it was changed since (`as_it_is`: not then).

    Raises ReproKitError when nothing was compiled.
    """
    name = " ".join(command(case.file.subject)[1:])
    found = _trace_of(case, options, as_it_is)
    if found is not None:
        return TraceSource(found[0], name, case, found[1])
    agree(case, ui)
    with ui.stage("run"):
        return TraceSource(_run(case, options, ui), name, case, settings_of(_STAGE, case, options))


def insights_of(source: TraceSource) -> Insights:
    """What the trace holds. Raises ReproKitError when it holds nothing."""
    insights = gather(source.trace)
    if not insights.events:
        raise UsageError(
            f"{source.trace} holds nothing of torch's; give a log or directory of TORCH_TRACE, or text of TORCH_LOGS."
        )
    return insights


def explain(source: TraceSource, cwd: Path) -> Explained:
    """What the trace says. Raises ReproKitError when it says nothing."""
    insights = insights_of(source)
    context = context_of(insights, cwd)
    found = tuple(_untried(suggestion) for suggestion in suggestions(context))
    explained = Explained(source.name, sentences(context, found), found, insights, state=source.state)
    if source.case is None:
        return explained
    before = read_before(source.case)
    tried = before.tried if before and before.insights == insights else None
    return _kept(source.case, _with(explained, tried, cwd) if tried else explained)


def try_advice(source: TraceSource, case: Case, timeout: float, ui: Ui, cwd: Path) -> Explained:
    """What the trace says, and what each suggestion does when the case's script is run with it."""
    explained = explain(source, cwd)
    found = suggestions(context_of(explained.insights, cwd))
    with ui.stage("try"):
        tried = try_all(found, explained.insights, case, timeout, ui)
        ui.done(advice_section.section(tried.trials).summary)
    return _kept(case, _with(explained, tried, cwd))


def _kept(case: Case, explained: Explained) -> Explained:
    with alone(case.path):
        case.write("insights.json", explained)
    return explained


def _untried(suggestion: Suggestion) -> Trial:
    return Trial((suggestion,), Ruling.UNTRIED, why_untried(suggestion))


def _with(explained: Explained, tried: Tried, cwd: Path) -> Explained:
    said = sentences(context_of(explained.insights, cwd), tried.trials)
    return replace(explained, sentences=said, advice=tried.trials, tried=tried)


def _trace_of(case: Case, options: ObserveOptions, as_it_is: bool) -> tuple[Path, str] | None:
    """The trace of the script's own run and what that depended on, if there is a current one in `case`."""
    ours, observed = case.path / _RUN, case.stage("observe")
    places = (
        (ours, read_text(str(ours / _SETTINGS)) or "", _STAGE),
        (case.path / "observe", observed.settings if observed else "", REGISTRY["observe"]),
    )
    for place, then, stage in places:
        there = any((place / "trace").glob("*.log")) if (place / "trace").is_dir() else False
        if there and (as_it_is or then == settings_of(stage, case, options)):
            return place / "trace", then
    return None


def _run(case: Case, options: ObserveOptions, ui: Ui) -> Path:
    """One run of the script as it is, with empty caches."""
    users_logs.check()
    place = case.path / _RUN
    shutil.rmtree(place, ignore_errors=True)
    (place / "trace").mkdir(parents=True)
    ui.progress("running " + " ".join(command(case.file.subject)))
    ran = run_subject(
        case,
        place,
        why="explain: a trace of it as it is",
        timeout=options.timeout,
        env={"TORCH_TRACE": str((place / "trace").absolute())},
        on_tick=lambda seconds: ui.progress(f"running, {seconds:.0f} s"),
    )
    if not any((place / "trace").iterdir()):
        raise StageError(f"Nothing was compiled: {exit_name(ran)} after {ran.seconds:.0f} s; its output is in {place}.")
    users_logs.give_back(place, ui)
    write_atomic(place / _SETTINGS, settings_of(_STAGE, case, options).encode())
    ui.done(f"{exit_name(ran)} after {ran.seconds:.0f} s")
    if not ran.ok:
        ui.warn(f"The script did not end well ({exit_name(ran)}); its output is in {place}.")
    return place / "trace"
