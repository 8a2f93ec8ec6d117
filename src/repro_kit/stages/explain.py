"""Explain: what a trace says, and what to do about it; from a log, a case, or a run of the script."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro_kit.case import Case
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
from repro_kit.stages.running import run_subject
from repro_kit.stages.trying import Tried, try_all, why_untried
from repro_kit.trace.insights import Insights, gather
from repro_kit.ui import Ui

_RUN = Path("explain") / "run"


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
        raise ReproKitError(f"{path} holds no record of torch's; give a log, or a directory, that TORCH_TRACE wrote.")
    return _told(str(path), insights, cwd)


def trace_of(case: Case) -> Path | None:
    """The trace of the script's own run, if there is one in `case`."""
    places = (case.path / _RUN / "trace", case.path / "observe" / "trace")
    return next((place for place in places if place.is_dir() and any(place.glob("*.log"))), None)


def explain_case(case: Case, options: Options, ui: Ui, cwd: Path, *, try_: bool = False) -> Explained:
    """Run the case's script where it has no trace yet, and say what its trace says; with `try_`, what advice does.

    `insights.json` is written. Raises ReproKitError when nothing was compiled.
    """
    trace = trace_of(case)
    if trace is None:
        with ui.stage("run"):
            trace = _run(case, options, ui)
    insights = gather(trace)
    name = " ".join(command(case.file.subject)[1:])
    explained = _told(name, insights, cwd)
    if try_:
        found = [it for trial in explained.advice for it in trial.suggestions]
        with ui.stage("try"):
            explained = _tried(explained, try_all(found, insights, case, options, ui), cwd)
            ui.done(advice.section(explained.advice).summary)
    case.write("insights.json", explained)
    return explained


def _told(subject: str, insights: Insights, cwd: Path) -> Explained:
    context = context_of(insights, cwd)
    found = tuple(_untried(it) for it in suggestions(context))
    return Explained(subject, sentences(context, found), found, insights)


def _untried(suggestion: Suggestion) -> Trial:
    return Trial((suggestion,), Ruling.UNTRIED, why_untried(suggestion))


def _tried(explained: Explained, tried: Tried, cwd: Path) -> Explained:
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
