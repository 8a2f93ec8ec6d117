"""The `bisect` command: search along each package of the request, and show the answers."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from repro_kit.builds.build_source import target_of
from repro_kit.builds.catalog import PackageEnds
from repro_kit.builds.interpreters import find_python
from repro_kit.case.case import locked
from repro_kit.commands.bisect.answer import (
    BisectReport,
    as_json,
    as_markdown,
    clues_of,
    make_report,
    named_sides,
    with_commits,
)
from repro_kit.commands.bisect.loop import Bisection, make_directory
from repro_kit.commands.bisect.plan import BisectRequest, overridden, plan
from repro_kit.commands.bisect.subject import BuildSubject, build_subject, with_reference
from repro_kit.errors import Exit, ReproKitError, UsageError
from repro_kit.files import write_atomic
from repro_kit.regressions.search import JudgeNext, SearchEnding, next_step
from repro_kit.regressions.search_state import ANSWER, STATE, BisectState, read_own_state, read_state
from repro_kit.regressions.unit import now
from repro_kit.runner.places import instead_of
from repro_kit.session.case_paths import is_case
from repro_kit.ui import Ui

_MERGE = "merge"  # the subdirectory for the search in a merged branch


def bisect(request: BisectRequest, ui: Ui) -> Exit:
    """Carry out `request`. Raises ReproKitError for a request that cannot be met."""
    if (request.builds.clone or request.repo) and shutil.which("git") is None:
        raise UsageError("There is no git command here, which --git and --repo need; install git.")
    if request.repo:
        from repro_kit.builds.commits import opened

        opened(request.repo)  # checked now, so that a wrong --repo does not show only after the last build
    asking = None if request.log else ui  # --log runs nothing, so there is nothing to agree to
    with build_subject(
        request.words, is_command=request.is_command, timeout=request.timeout, ui=asking, symptom=request.symptom
    ) as subject:
        directory = (request.directory or subject.state_directory).absolute()
        if request.log:
            return _show_log(directory, ui)
        with _locked_directory(directory):
            reports = [
                _search(axis, subject, directory if number == 0 else directory / axis.package, request, ui)
                for number, axis in enumerate(request.packages)
            ]
    ui.result(as_json(reports[0]) if len(reports) == 1 else {"reports": [as_json(report) for report in reports]})
    return min((report.exit_code for report in reports), key=lambda code: code != Exit.OK)


@contextmanager
def _locked_directory(directory: Path) -> Iterator[None]:
    """Make `directory` and hold its lock; remove a new directory again when the request turns out to be a mistake."""
    new = not directory.exists()
    make_directory(directory)
    with locked(directory):
        try:
            yield
        except ReproKitError:
            if new and not (directory / STATE).exists():
                shutil.rmtree(directory, ignore_errors=True)
            raise


def _search(axis: PackageEnds, subject: BuildSubject, directory: Path, request: BisectRequest, ui: Ui) -> BisectReport:
    """Search along one package, with the other packages fixed at their bad ends, and show the answer."""
    if request.fresh:
        _forget(directory)
    pins = [_pinned(other) for other in request.packages if other.package != axis.package and other.bad]
    pythons = tuple(find_python(value, Path.cwd(), os.environ) for value in request.builds.pythons)
    builds = replace(request.builds, pythons=pythons, packages=(*request.builds.packages, *pins))
    request = replace(request, builds=builds)
    try:
        report = search(axis, subject, directory, request, ui)
        if request.all_parents:
            report = _into_merge(report, subject, directory / _MERGE, replace(request, marks=()), ui)
    except KeyboardInterrupt:
        state = read_state(directory)
        ui.warn(f"Interrupted; {len(state.judgements) if state else 0} judgements are kept. To go on: {request.again}")
        raise
    write_atomic(directory / ANSWER, as_markdown(report).encode())
    show(report, ui)
    ui.note(f"As Markdown, to paste into an issue: {directory / ANSWER}")
    if directory == subject.state_directory.absolute() and is_case(directory.parent):
        ui.note(f"`repro-kit bundle {shlex.quote(directory.parent.name)}` puts it into the bundle.")
    return report


def _pinned(axis: PackageEnds) -> str:
    """Return the requirement that fixes a package at its bad end. Raises ReproKitError when that is no version."""
    try:
        return f"{axis.package}=={Version(axis.bad or '')}"
    except InvalidVersion as error:
        raise UsageError(
            f"--bad {axis.bad} is not a version; {axis.package} is fixed there while another package is varied, so "
            "give its version."
        ) from error


def search(axis: PackageEnds, subject: BuildSubject, directory: Path, request: BisectRequest, ui: Ui) -> BisectReport:
    """Search along one package, starting from the state saved in `directory`."""
    selection = request.builds
    python = next(iter(selection.pythons), subject.python)
    with ui.stage("builds"):
        target = target_of(find_python(python, Path.cwd(), os.environ))
        state, source = plan(axis, subject, request, target, directory, read_own_state(directory))
        state = overridden(state, request.marks, now())
        ui.done(f"{len(state.range)} of {source.description}: {state.range[0].shown} … {state.range[-1].shown}")
    if not selection.keep:
        shutil.rmtree(instead_of(directory / "envs"), ignore_errors=True)  # environments that a killed run left
    state, oracle = with_reference(state, source, subject.oracle, ui)
    bisection = Bisection(directory, state, source, oracle, request, ui)
    outcome = bisection.run()
    report = make_report(bisection.state, outcome)
    clues = subject.clues if subject.signature else clues_of(bisection.state.signature, None, "")
    return with_commits(report, request.repo or selection.clone, clues, subject.manual_repro, directory)


def _into_merge(
    report: BisectReport, subject: BuildSubject, directory: Path, request: BisectRequest, ui: Ui
) -> BisectReport:
    """Search the merged branch when the answer is a merge commit, and return the commit of that branch."""
    clone = request.builds.clone
    if clone is None or report.outcome.ending is not SearchEnding.FOUND or report.new is None:
        return report
    from repro_kit.builds.commits import merged_branch

    ends = merged_branch(clone, report.new.build.commit or "")
    if ends is None:
        return report
    old, new = ends
    axis = PackageEnds(report.state.package, *((new, old) if report.state.find_fix else (old, new)))
    inside = search(axis, subject, directory, request, ui)
    if inside.outcome.ending not in (SearchEnding.FOUND, SearchEnding.RANGE):
        return replace(
            report,
            notes=(
                *report.notes,
                f"The commit is a merge; the search in its branch found no commit: {inside.sentence}",
            ),
        )
    return replace(inside, notes=(*inside.notes, f"The commit was merged by {report.new.build.shown}."))


def show(report: BisectReport, ui: Ui) -> None:
    """Show the answer on the terminal."""
    state = report.state
    lines = [("answer", report.sentence)]
    for name, side in named_sides(report):
        lines.append((name, " ".join(filter(None, [side.build.shown, side.commit or ""]))))
    lines += [("compare", report.compare)] if report.compare else []
    lines += [("failure", state.signature.summary())] if state.signature else []
    if report.suspects:
        first = report.suspects[0]
        lines.append(("likeliest", f"{first.commit[:12]} {first.title}" + (f" ({first.why})" if first.why else "")))
    lines += [("by commit", f"sh {report.git_bisect}")] if report.git_bisect else []
    lines.append(("judged", f"{len(state.current)} of {len(state.range)} builds"))
    ui.panel("bisect", lines)
    for note in report.notes:
        ui.note(note)


def _show_log(directory: Path, ui: Ui) -> Exit:
    """Show the judgements in order, and the next build."""
    state = read_own_state(directory)
    if state is None:
        raise UsageError(f"Nothing was judged yet: there is no {STATE} in {directory}.")
    rows = [
        (
            judgement.build,
            judgement.mark + (" by hand" if judgement.by_hand else ""),
            judgement.reason,
            judgement.step,
            f"{judgement.seconds:.1f}",
        )
        for judgement in state.judgements
    ]
    ui.table(f"{state.source}; {state.oracle}", ("build", "verdict", "seen", "why this one", "seconds"), rows)
    step = next_step(state.question, state.marks)
    if isinstance(step, JudgeNext):
        ui.print(f"Next: {state.range[step.index].shown}, {step.why}.")
        ui.result({"judgements": [_row(state, index, {}) for index in range(len(state.judgements))], "ending": None})
        return Exit.OK
    report = make_report(state, step)
    show(report, ui)
    judgements = [_row(state, index, report.chances) for index in range(len(state.judgements))]
    ui.result({**as_json(report), "judgements": judgements})
    return Exit.OK


def _row(state: BisectState, index: int, chances: Mapping[str, float]) -> dict[str, Any]:
    judgement = state.judgements[index]
    return {
        "build": judgement.build,
        "mark": judgement.mark,
        "reason": judgement.reason,
        "step": judgement.step,
        "by_hand": judgement.by_hand,
        "chance": round(chances.get(judgement.build, 0.0), 4),
    }


def _forget(directory: Path) -> None:
    for path in (directory, directory / _MERGE):
        (path / STATE).unlink(missing_ok=True)
        (path / ANSWER).unlink(missing_ok=True)
