"""Find the commits between the two builds of an answer: a compare link, the likeliest, and a git-bisect script."""

from __future__ import annotations

import ast
import shlex
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from repro_kit.bisect.next_build import SearchEnding
from repro_kit.bisect.ranking import Between, Clues, rank
from repro_kit.bundle.pages.templates import render
from repro_kit.commands.bisect.answer import BisectReport, Suspect
from repro_kit.model.failure.signature import Signature

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
        from repro_kit.builds.git.history import between, repository_of

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
