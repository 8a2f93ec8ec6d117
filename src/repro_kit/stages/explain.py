"""Explain: what a trace says, and what to do about it; from a log, a case, or a run of the script."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro_kit.case import Case, write_atomic
from repro_kit.errors import Exit, ReproKitError
from repro_kit.explain.advice import suggestions
from repro_kit.explain.context import Context
from repro_kit.explain.judge import Ruling, Trial
from repro_kit.explain.report import Report, Sentence
from repro_kit.explain.sections import advice, sections
from repro_kit.explain.sentences import sentences
from repro_kit.explain.suggestion import Suggestion
from repro_kit.model.serialize import to_data
from repro_kit.runner.launch import exit_name
from repro_kit.runner.subject import command
from repro_kit.stages.options import Options
from repro_kit.stages.registry import REGISTRY, Stage, settings_of
from repro_kit.stages.running import run_subject
from repro_kit.stages.trying import Tried, try_all, why_untried
from repro_kit.trace.insights import Insights, gather
from repro_kit.ui import Ui

_RUN = Path("explain") / "run"
_SETTINGS = "settings.txt"  # what the run depended on; another text makes it stale
_STAGE = Stage("explain", __name__, settings=("timeout",))


@dataclass(frozen=True)
class Explained:
    """`insights.json`: everything that was found, and what is said about it."""

    subject: str
    sentences: tuple[Sentence, ...]
    advice: tuple[Trial, ...]
    insights: Insights
    tried: Tried | None = None

    def report(self, cwd: Path) -> Report:
        """What is shown of it."""
        cold, warm = (self.tried.cold, self.tried.warm) if self.tried else (None, None)
        further = self.tried.further if self.tried else ""
        told = (advice.section(self.advice, cold, warm), *sections(context_of(self.insights, cwd), further))
        return Report(self.subject, self.sentences, told)

    def as_json(self) -> dict[str, Any]:
        """All of it as JSON."""
        data: dict[str, Any] = to_data(self)
        return data


def context_of(insights: Insights, cwd: Path) -> Context:
    """The insights for a user who is at `cwd`, where the user's files are read."""
    return Context(insights, str(cwd), _read)


def explain_log(path: Path, cwd: Path) -> Explained:
    """What the log (or directory of logs) at `path` says. Raises ReproKitError when it says nothing."""
    insights = gather(path)
    if not insights.events:
        raise ReproKitError(
            f"{path} holds nothing of torch's; give a log or directory of TORCH_TRACE, or the text of TORCH_LOGS."
        )
    return _told(str(path), insights, cwd)


def explain_case(
    case: Case, options: Options, ui: Ui, cwd: Path, *, try_: bool = False, as_it_is: bool = False
) -> Explained:
    """Say what the trace of the case's script says; with `try_`, what advice does. `insights.json` is written.

    The script is run where it has no trace yet, or was changed since (`as_it_is`: not for that). Raises ReproKitError
    when nothing was compiled.
    """
    trace = _trace_of(case, options, as_it_is)
    if trace is None:
        with ui.stage("run"):
            trace = _run(case, options, ui)
        tried = None
    else:
        tried = _tried_before(case)
    insights = gather(trace)
    name = " ".join(command(case.file.subject)[1:])
    explained = _told(name, insights, cwd)
    if try_:
        found = [it for trial in explained.advice for it in trial.suggestions]
        with ui.stage("try"):
            tried = try_all(found, insights, case, options, ui)
            ui.done(advice.section(tried.trials).summary)
    if tried is not None:
        explained = _with(explained, tried, cwd)
    case.write("insights.json", explained)
    return explained


def _trace_of(case: Case, options: Options, as_it_is: bool) -> Path | None:
    """The trace of the script's own run, if there is a current one in `case`."""
    ours, observed = case.path / _RUN, case.stage("observe")
    found = (
        (ours / "trace", _settings_of(ours), settings_of(_STAGE, case, options)),
        (
            case.path / "observe" / "trace",
            observed.settings if observed else "",
            settings_of(REGISTRY["observe"], case, options),
        ),
    )
    return next(
        (
            place
            for place, then, now in found
            if place.is_dir() and any(place.glob("*.log")) and (as_it_is or then == now)
        ),
        None,
    )


def _settings_of(place: Path) -> str:
    return _read(str(place / _SETTINGS)) or ""


def _tried_before(case: Case) -> Tried | None:
    """What an earlier `--try` found with the same trace."""
    try:
        return case.read("insights.json", Explained).tried if case.has("insights.json") else None
    except ReproKitError:
        return None  # written by another version: it is written anew


def _told(subject: str, insights: Insights, cwd: Path) -> Explained:
    context = context_of(insights, cwd)
    found = tuple(_untried(it) for it in suggestions(context))
    return Explained(subject, sentences(context, found), found, insights)


def _untried(suggestion: Suggestion) -> Trial:
    return Trial((suggestion,), Ruling.UNTRIED, why_untried(suggestion))


def _with(explained: Explained, tried: Tried, cwd: Path) -> Explained:
    said = sentences(context_of(explained.insights, cwd), tried.trials)
    return Explained(explained.subject, said, tried.trials, explained.insights, tried)


def _run(case: Case, options: Options, ui: Ui) -> Path:
    """One run of the script as it is, with empty caches."""
    place = case.path / _RUN
    shutil.rmtree(place, ignore_errors=True)
    (place / "trace").mkdir(parents=True)
    ui.progress("running " + " ".join(command(case.file.subject)))
    ran = run_subject(
        case,
        place,
        timeout=options.timeout,
        env={"TORCH_TRACE": str((place / "trace").absolute())},
        on_tick=lambda seconds: ui.progress(f"running, {seconds:.0f} s"),
    )
    if not any((place / "trace").iterdir()):
        raise ReproKitError(
            f"Nothing was compiled: {exit_name(ran)} after {ran.seconds:.0f} s; its output is in {place}.", Exit.FAILED
        )
    write_atomic(place / _SETTINGS, settings_of(_STAGE, case, options).encode())
    ui.done(f"{exit_name(ran)} after {ran.seconds:.0f} s")
    if not ran.ok:
        ui.warn(f"The script did not end well ({exit_name(ran)}); its output is in {place}.")
    return place / "trace"


def _read(file: str) -> str | None:
    """The text of a user's file, None where there is none."""
    try:
        return Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
