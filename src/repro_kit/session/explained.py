"""`insights.json`: what `explain` found in a case, for other commands and stages to read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from repro_kit.case.case import Case, command_files
from repro_kit.errors import ReproKitError
from repro_kit.explain.context import Context
from repro_kit.explain.report import ExplainReport, Sentence
from repro_kit.explain.sections import advice_section, sections
from repro_kit.explain.trials import Trial, Tried
from repro_kit.files import read_plain
from repro_kit.serialize import to_data
from repro_kit.trace.insights import Insights

_LARGEST = 8 << 20  # bytes of a source file


@dataclass(frozen=True)
class Explained:
    """`insights.json`: all insights, and the sentences and advice about them."""

    subject: str
    sentences: tuple[Sentence, ...]
    advice: tuple[Trial, ...]
    insights: Insights
    tried: Tried | None = None
    state: str = ""  # the `state` of the `Source`

    def report(self, cwd: Path, *, own: bool = False) -> ExplainReport:
        """The report that is shown to a user who is in directory `cwd`. `own`: see `context_of`."""
        cold, warm, further_advice = (
            (self.tried.cold, self.tried.warm, self.tried.further) if self.tried else (None, None, "")
        )
        report_sections = (
            advice_section.advice_section(self.advice, cold, warm),
            *sections(context_of(self.insights, cwd, own=own), further_advice),
        )
        return ExplainReport(self.subject, self.sentences, report_sections)

    def as_json(self) -> dict[str, Any]:
        """All fields as JSON data."""
        data: dict[str, Any] = to_data(self)
        data["insights"]["totals"] = to_data(self.insights.totals)
        return data


def context_of(insights: Insights, cwd: Path, *, own: bool = False) -> Context:
    """The insights for a user who is in directory `cwd`, with access to the user's files.

    `own`: the trace is of the user's own run. Any other may name files that its reader would not show, so that only
    Python files below `cwd` are read.
    """
    return Context(insights, str(cwd), read_text if own else partial(_read_below, cwd))


def explained_before(case: Case) -> Explained | None:
    """What `explain` found in the script as it is now; None if it did not run since the script changed."""
    explained = read_before(case)
    unchanged = explained is not None and (
        case.has("watched.json") or explained.state.endswith(" ".join(command_files(case)))
    )
    return explained if unchanged else None


def read_before(case: Case) -> Explained | None:
    """What an earlier run of `explain` found, in this trace or another one; None if there was none."""
    try:
        return case.read("insights.json", Explained) if case.has("insights.json") else None
    except ReproKitError:
        return None  # written by another version: the next run of `explain` replaces it


def _read_below(directory: Path, file: str) -> str | None:
    try:
        path = Path(file).resolve()
        is_below = path.suffix == ".py" and path.is_relative_to(directory.resolve())
    except (OSError, ValueError, RuntimeError):  # a null character, a loop of links
        return None
    return read_text(str(path)) if is_below else None


def read_text(file: str) -> str | None:
    """The text of a user's file that a trace names; None if it cannot be read."""
    try:
        return read_plain(Path(file), _LARGEST).decode("utf-8", "replace")
    except (OSError, ValueError, ReproKitError):
        return None
