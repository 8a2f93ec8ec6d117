"""The answer of a bisection, in words, as Markdown and as data, and the commits between its two builds."""

from __future__ import annotations

import ast
import shlex
import shutil
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

from repro_kit.builds.web import without_credentials
from repro_kit.bundle.pages.templates import render
from repro_kit.errors import Exit
from repro_kit.failure.signature import Signature
from repro_kit.reduce.flaky import chance_to_miss
from repro_kit.regressions.build import Build, Judgement, Mark
from repro_kit.regressions.ranking import Between, Clues, rank
from repro_kit.regressions.search import Change, SearchEnding, SearchOutcome, changes, with_changes
from repro_kit.regressions.search_state import BisectState
from repro_kit.serialize import to_data

_EXITS = {
    SearchEnding.FOUND: Exit.OK,
    SearchEnding.RANGE: Exit.OK,
    SearchEnding.NO_NEW_END: Exit.CANNOT_RUN,
    SearchEnding.NO_OLD_END: Exit.CANNOT_RUN,
}


@dataclass(frozen=True)
class AnswerSide:
    """One of the two builds of the answer, and the commit that it was made from."""

    build: Build
    judgement: Judgement | None
    commit: str | None = None

    @property
    def url(self) -> str:
        """The URL of the wheel without credentials; "" for a local file."""
        url = self.build.url or ""
        return "" if url.startswith("file:") else without_credentials(url)


@dataclass(frozen=True)
class Suspect:
    """A commit between the two builds. `why` says how the commit relates to the failure."""

    commit: str
    title: str
    why: str = ""


@dataclass(frozen=True)
class BisectReport:
    """The answer of a bisection, and the judgements that it is based on."""

    state: BisectState
    outcome: SearchOutcome
    old: AnswerSide | None = None
    new: AnswerSide | None = None
    compare: str = ""  # URL
    suspects: tuple[Suspect, ...] = ()
    suspects_of: int = 0  # commits between the two builds; `suspects` are the likeliest of them
    git_bisect: str = ""  # script
    notes: tuple[str, ...] = field(default=())

    @property
    def exit_code(self) -> Exit:
        """The command's exit code."""
        if self.outcome.ending in _EXITS:
            return _EXITS[self.outcome.ending]
        passes = (self.outcome.ending is SearchEnding.NEW_IS_OLD) != self.state.find_fix
        return Exit.NOTHING_FAILED if passes else Exit.FAILED

    @property
    def changed(self) -> bool:
        """Whether one failure replaced another: the older builds fail too, but differently."""
        judged = self.old.judgement if self.old else None
        return bool(judged and judged.mark is Mark.GOOD and judged.other) and not self.state.find_fix

    @property
    def confidence(self) -> float:
        """The probability that no good build passed by chance (0 to 1): over the good builds, multiplied.

        The failure rate is that of the failing runs so far; see `chance_to_miss`. 1 for a failure of every run.
        """
        return prod(1 - chance for chance in self.chances.values())

    @property
    def chances(self) -> dict[str, float]:
        """For each good build the probability that it passed by chance; none for a failure of every run."""
        judged = list(self.state.current.values())
        bad = [judgement for judgement in judged if judgement.mark is Mark.BAD]
        failed, runs = (sum(getattr(judgement, name) for judgement in bad) for name in ("failures", "runs"))
        if not 0 < failed < runs:
            return {}
        good = [judgement for judgement in judged if judgement.mark is Mark.GOOD and not judgement.by_hand]
        return {judgement.build: chance_to_miss(failed, runs, judgement.runs) for judgement in good}

    @property
    def changes(self) -> list[Change]:
        """Every change of the result in the range, oldest first."""
        return changes(self.state.marks)

    def confidence_of(self, change: Change) -> float:
        """The probability that neither build of a change is misjudged by chance."""
        ends = (self.state.range[index].name for index in (change.before, change.after))
        return prod(1 - self.chances.get(name, 0.0) for name in ends)

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        return _sentence(self)


def make_report(state: BisectState, outcome: SearchOutcome) -> BisectReport:
    """Make the report from the state alone, without commits."""
    outcome = with_changes(state.question, state.marks, outcome)
    old, new = _side(state, outcome.old), _side(state, outcome.new)
    report = BisectReport(state, outcome, old, new, notes=tuple(_notes(state, outcome, old, new)))
    if report.confidence == 1 or not (old and new):
        return report
    doubt = f"With {report.confidence:.0%} confidence: no build was called good because it passed by chance."
    return replace(report, notes=(*report.notes, doubt))


def as_markdown(report: BisectReport) -> str:
    """Render the report as Markdown, to paste into an issue."""
    between = [report.state.range[index] for index in (*report.outcome.skipped, *report.outcome.untried)]
    current = report.state.current
    return render(
        "bisect.md.j2",
        report=report,
        sides=named_sides(report),
        between=[(build, current.get(build.name)) for build in sorted(between, key=report.state.range.index)],
        judgements=report.state.judgements,
        chances=report.chances,
    )


def named_sides(report: BisectReport) -> list[tuple[str, AnswerSide]]:
    """Return the builds of the answer, each with its name ("last good", "first bad")."""
    if not (report.old and report.new):
        return [("build", side) for side in (report.old, report.new) if side]
    names = ("last bad", "first good") if report.state.find_fix else ("last good", "first bad")
    if report.changed:
        names = ("last that failed differently", "first bad")
    return list(zip(names, (report.old, report.new), strict=True))


def as_json(report: BisectReport) -> dict[str, Any]:
    """Return the data that `--json` prints."""
    state, outcome = report.state, report.outcome
    named = state.range

    def side(answer_side: AnswerSide | None) -> Any:
        url = answer_side.build.url and without_credentials(answer_side.build.url) if answer_side else None
        return {**to_data(answer_side.build), "url": url, "commit": answer_side.commit} if answer_side else None

    return {
        "answer": report.sentence,
        "ending": outcome.ending.name.lower(),
        "package": state.package,
        "find_fix": state.find_fix,
        "last_good" if not state.find_fix else "last_bad": side(report.old),
        "first_bad" if not state.find_fix else "first_good": side(report.new),
        "skipped": [named[index].name for index in outcome.skipped],
        "untried": [named[index].name for index in outcome.untried],
        "compare": report.compare or None,
        "suspects": to_data(report.suspects),
        "confidence": round(report.confidence, 4),
        "changes": [
            {
                "before": named[change.before].name,
                "after": named[change.after].name,
                "fixed": change.fixed,
                "confidence": round(report.confidence_of(change), 4),
            }
            for change in report.changes
        ],
        "signature": state.signature.summary() if state.signature else None,
        "judged": len(state.current),
        "builds": len(named),
        "notes": list(report.notes),
        "exit": int(report.exit_code),
    }


def _side(state: BisectState, index: int | None) -> AnswerSide | None:
    if index is None:
        return None
    build = state.range[index]
    judgement = state.current.get(build.name)
    return AnswerSide(build, judgement, (judgement and judgement.commit) or build.commit)


def _sentence(report: BisectReport) -> str:
    state, outcome = report.state, report.outcome
    fails, passes = ("no longer fails", "still fails") if state.find_fix else ("fails", "still passes")
    if report.changed:
        fails, passes = "fails like this", "fails differently"
    old = _called(report.old, state) if report.old else ""
    new = _called(report.new, state) if report.new else ""
    match outcome.ending:
        case SearchEnding.FOUND:
            return f"{new} is the first build that {fails}; {old} is the last one that {passes}."
        case SearchEnding.RANGE:
            count = len(outcome.skipped) + len(outcome.untried)
            kind = "first build without the failure" if state.find_fix else "first build that fails"
            return (
                f"The {kind} is {new} or one of the {count} before it, which cannot be judged; {old} is the "
                f"last one that {passes}."
            )
        case SearchEnding.NEW_IS_OLD:
            result = "still fails" if state.find_fix else "passes"
            return f"{old} {result}, so both ends have the same result and there is nothing to find: try a newer one."
        case SearchEnding.OLD_IS_NEW:
            result = "passes" if state.find_fix else "already fails"
            return f"{new} {result}, so both ends have the same result and there is nothing to find: try an older one."
        case SearchEnding.NO_NEW_END | SearchEnding.NO_OLD_END:
            side = "newer" if outcome.ending is SearchEnding.NO_NEW_END else "older"
            return f"No build of {state.package} at the {side} end can be judged; the log says why (--log)."


def _called(side: AnswerSide, state: BisectState) -> str:
    """Name a build in words: ``torch 2.13.0``. The names of interpreters and commits need no package before them."""
    named = side.build.python or side.build.title
    return side.build.shown if named else f"{state.package} {side.build.shown}"


def _notes(state: BisectState, outcome: SearchOutcome, old: AnswerSide | None, new: AnswerSide | None) -> list[str]:
    notes = []
    if state.flaky:
        notes.append(f"The failure comes and goes ({state.flaky}): a build is good after {state.repeats} passing runs.")
    if outcome.untried:
        notes.append(f"{len(outcome.untried)} of the builds between were not tried; --max-skips tries more.")
    if outcome.contradictions:
        names = ", ".join(state.range[index].name for index in outcome.contradictions)
        notes.append(f"The newer builds do not agree: {names} was judged like the older builds.")
    turns = changes(state.marks)
    if len(turns) > 1:
        notes.append(f"The result changes {len(turns)} times: {', then '.join(_turn(state, turn) for turn in turns)}.")
    if old and new and old.commit and old.commit == new.commit:
        notes.append("Both builds were made from the same commit: look at what else changed between them.")
    others = dict.fromkeys(
        judgement.other for judgement in state.current.values() if judgement.other and judgement.mark is not Mark.GOOD
    )
    notes += [f"A different failure occurred, and does not count: {other}" for other in others]
    return notes


def _turn(state: BisectState, change: Change) -> str:
    words = ("fails", "passes") if change.fixed else ("passes", "fails")
    ends = (state.range[change.before].shown, state.range[change.after].shown)
    return ", ".join(f"{word} on {end}" for word, end in zip(words, ends, strict=True))


GIT_BISECT = "git-bisect.sh"
_SHOWN = 10
_MOST_OPS = 8  # a program with more operators is not reduced, so its operators do not help


@dataclass(frozen=True)
class ManualRepro:
    """A command that a person can repeat on a commit, and the directory to start it in.

    `passing`: the directory is temporary, and must be copied.
    """

    words: tuple[str, ...]
    directory: Path
    passing: bool = False


def with_commits(
    report: BisectReport, clone: Path | None, clues: Clues, manual_repro: ManualRepro, directory: Path
) -> BisectReport:
    """Return the report with the commits between its two builds. The git-bisect script is written to `directory`."""
    old, new = report.old, report.new
    if report.outcome.ending not in (SearchEnding.FOUND, SearchEnding.RANGE) or not (
        old and new and old.commit and new.commit
    ):
        return report
    commits, repository = Between(old.commit, new.commit), report.state.repository
    if clone:
        from repro_kit.builds.commits import between, repository_of

        commits = between(clone, old.commit, new.commit)
        repository = repository or repository_of(clone)
    notes = [*report.notes, *([commits.problem + "."] if commits.problem else [])]
    ranked = rank(commits.commits, clues)
    script = ""
    if commits.old != commits.new:
        script = str(directory / GIT_BISECT)
        if manual_repro.passing:
            manual_repro = replace(
                manual_repro, directory=shutil.copytree(manual_repro.directory, directory / "repro", dirs_exist_ok=True)
            )
        (directory / GIT_BISECT).write_text(_script(report, commits, manual_repro), encoding="utf-8")
    return replace(
        report,
        old=replace(old, commit=commits.old),
        new=replace(new, commit=commits.new),
        compare=f"{repository}/compare/{commits.old}...{commits.new}"
        if repository and commits.old != commits.new
        else "",
        suspects=tuple(
            Suspect(suspect.commit.sha, suspect.commit.title, suspect.why)
            for suspect in ranked[:_SHOWN]
            if suspect.score >= 0
        ),
        suspects_of=len(ranked),
        git_bisect=script,
        notes=tuple(notes),
    )


def clues_of(signature: Signature | None, layer: str | None, text: str) -> Clues:
    """Collect clues for ranking commits from the failure and from the program `text` (a `repro.py`)."""
    files = tuple(dict.fromkeys(frame.partition(":")[0] for frame in signature.frames)) if signature else ()
    named = [signature.op] if signature and signature.op else []
    return Clues(layer, files, tuple(dict.fromkeys([*named, *ops_in(text)])))


def ops_in(text: str) -> list[str]:
    """Return the operators that the function `graph` of a program calls; none when there are more than a few."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    graph = next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "graph"), None)
    calls = [ast.unparse(node.func) for node in ast.walk(graph) if isinstance(node, ast.Call)] if graph else []
    operators = list(dict.fromkeys(call for call in calls if "." in call))
    return operators if len(operators) <= _MOST_OPS else []


def _script(report: BisectReport, commits: Between, manual_repro: ManualRepro) -> str:
    return render(
        "git_bisect.sh.j2",
        title=report.sentence,
        package=report.state.package,
        name=GIT_BISECT,
        build="python -m pip install --no-build-isolation --verbose .",
        test=shlex.join(manual_repro.words),
        directory=shlex.quote(str(manual_repro.directory.absolute())),
        find_fix=report.state.find_fix,
        repeats=report.state.repeats,
        old=shlex.quote(commits.old),
        new=shlex.quote(commits.new),
    )
