"""Explain a trace: from a log, a case, or a new run of the script."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.lock import alone
from repro_kit.commands.explain.suggestion_trials import try_all, why_untried
from repro_kit.errors import Exit, ReproKitError, StageError, UsageError
from repro_kit.explain.advice import suggestions
from repro_kit.explain.judge import Ruling, Trial
from repro_kit.explain.sections import advice_section
from repro_kit.explain.sentences import sentences
from repro_kit.explain.suggestion import Suggestion
from repro_kit.explain.tried import Tried
from repro_kit.files import write_atomic
from repro_kit.model.failure.missing_device import missing_device
from repro_kit.pipeline.registry import REGISTRY, Stage, settings_of
from repro_kit.runner.launch import exit_name
from repro_kit.runner.subject_start import command
from repro_kit.session.explained import Explained, context_of, read_before, read_text
from repro_kit.session.options import ObserveOptions
from repro_kit.session.script import users_logs
from repro_kit.session.script.script_run import SubjectRun, run_subject
from repro_kit.session.strangers.trust import agree
from repro_kit.session.verdicts.lacking_device import lacks_device, printed_lack
from repro_kit.trace.flight_recorder import is_dump
from repro_kit.trace.insights import Insights, gather
from repro_kit.trace.no_log import no_log
from repro_kit.ui import Ui

_RUN = Path("explain") / "run"
_SETTINGS = "settings.txt"  # what the run depended on; the run is stale when this text changes
_STAGE = Stage("explain", __name__, settings=("timeout",))


@dataclass(frozen=True)
class TraceSource:
    """A trace, its name and its case. `state`: the settings and files that the traced run depended on."""

    trace: Path
    name: str
    case: Case | None = None
    state: str = ""

    @property
    def is_own(self) -> bool:
        """Whether the trace is of a run of the user's own."""
        return self.case is not None and self.case.is_own


def source_of_case(case: Case, options: ObserveOptions, ui: Ui, *, as_it_is: bool = False) -> TraceSource:
    """The trace of the case's script.

    The script is run if it has no trace, or changed since; with `as_it_is`, an outdated trace is good enough.
    Raises ReproKitError if nothing was compiled.
    """
    name = " ".join(command(case.file.subject)[1:])
    current = _trace_of(case, options, as_it_is)
    if current is not None:
        return TraceSource(current[0], name, case, current[1])
    agree(case, ui)
    with ui.stage("run"):
        return TraceSource(_run(case, options, ui), name, case, settings_of(_STAGE, case, options))


def insights_of(source: TraceSource) -> Insights:
    """The insights of the trace. Raises ReproKitError if the trace is empty."""
    insights = gather(source.trace)
    if not insights.events and not insights.collectives.ranks:
        if is_dump(source.trace):
            raise UsageError(
                f"{source.trace} is the flight recorder's dump of one rank; give the directory with those of all ranks."
            )
        raise UsageError(no_log(source.trace))
    return insights


def explain(source: TraceSource, cwd: Path) -> Explained:
    """Explain the trace. Raises ReproKitError if the trace is empty."""
    insights = insights_of(source)
    context = context_of(insights, cwd, own=source.is_own)
    trials = tuple(_untried(suggestion) for suggestion in suggestions(context))
    explained = Explained(source.name, sentences(context, trials), trials, insights, state=source.state)
    if source.case is None:
        return explained
    before = read_before(source.case)
    tried = before.tried if before and before.insights == insights else None
    return _kept(source.case, _with(explained, tried, cwd, own=source.is_own) if tried else explained)


def try_advice(source: TraceSource, case: Case, timeout: float, ui: Ui, cwd: Path) -> Explained:
    """Explain the trace, and run the case's script once with each suggestion."""
    explained = explain(source, cwd)
    suggested = suggestions(context_of(explained.insights, cwd, own=source.is_own))
    with ui.stage("try"):
        tried = try_all(suggested, explained.insights, case, timeout, ui)
        ui.done(advice_section.advice_section(tried.trials).summary)
    return _kept(case, _with(explained, tried, cwd, own=source.is_own))


def _kept(case: Case, explained: Explained) -> Explained:
    with alone(case.path):
        case.write("insights.json", explained)
    return explained


def _untried(suggestion: Suggestion) -> Trial:
    return Trial((suggestion,), Ruling.UNTRIED, why_untried(suggestion))


def _with(explained: Explained, tried: Tried, cwd: Path, *, own: bool) -> Explained:
    retold = sentences(context_of(explained.insights, cwd, own=own), tried.trials)
    return replace(explained, sentences=retold, advice=tried.trials, tried=tried)


def _trace_of(case: Case, options: ObserveOptions, as_it_is: bool) -> tuple[Path, str] | None:
    """The trace of the script's own run and its settings, if `case` has a current one."""
    ours, observed = case.path / _RUN, case.stage("observe")
    places = (
        (ours, read_text(str(ours / _SETTINGS)) or "", _STAGE),
        (case.path / "observe", observed.settings if observed else "", REGISTRY["observe"]),
    )
    for directory, settings, stage in places:
        has_trace = any((directory / "trace").glob("*.log")) if (directory / "trace").is_dir() else False
        if has_trace and (as_it_is or settings == settings_of(stage, case, options)):
            return directory / "trace", settings
    return None


def _run(case: Case, options: ObserveOptions, ui: Ui) -> Path:
    """Run the script once, unchanged, with empty caches."""
    users_logs.check()
    directory = case.path / _RUN
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "trace").mkdir(parents=True)
    ui.progress(f"running {case.file.subject}")
    run = SubjectRun(
        directory,
        why="explain: a trace of it as it is",
        timeout=options.timeout,
        env={"TORCH_TRACE": str((directory / "trace").absolute())},
        ui=ui,
    )
    ran = run_subject(case, run)
    lack = None if ran.ok else printed_lack(directory / "stderr.txt")
    if not any((directory / "trace").iterdir()):
        if lack is not None:
            raise ReproKitError(f"{lacks_device(lack)} Its output is in {directory}.", Exit.CANNOT_RUN)
        raise StageError(
            f"Nothing was compiled: {exit_name(ran)} after {ran.seconds:.0f} s; its output is in {directory}."
        )
    users_logs.give_back(directory, ui)
    write_atomic(directory / _SETTINGS, settings_of(_STAGE, case, options).encode())
    ui.done(f"{exit_name(ran)} after {ran.seconds:.0f} s")
    if not ran.ok:
        why = f", since this machine lacks {missing_device(lack)}" if lack else ""
        ui.warn(f"The script failed ({exit_name(ran)}){why}. Its output is in {directory}.")
    return directory / "trace"
