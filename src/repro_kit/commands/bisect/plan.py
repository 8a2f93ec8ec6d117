"""The request of the `bisect` command, and the search to start from: the source of builds, the ends, the state."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from repro_kit.builds.build_source import BuildSource, Target
from repro_kit.builds.catalog import (
    BuildSelection,
    PackageEnds,
    built_beside,
    open_source,
    settle_source,
    source_in_words,
)
from repro_kit.builds.interpreters import find_python
from repro_kit.commands.bisect.subject import BuildSubject
from repro_kit.errors import UsageError
from repro_kit.failure.symptom import Symptom
from repro_kit.regressions.build import Judgement, Mark, NoSuchBuildError, resolve_build
from repro_kit.regressions.search import PATIENCE
from repro_kit.regressions.search_state import SCHEMA, BisectState


@dataclass(frozen=True)
class BisectRequest:
    """What is run on which builds, what counts as the failure, and where the answer goes."""

    words: tuple[str, ...]  # the subject, or the words of a command
    is_command: bool
    again: str  # the command line that continues the search
    packages: tuple[PackageEnds, ...]  # packages to vary, one after the other
    builds: BuildSelection
    find_fix: bool = False
    all_parents: bool = False  # search the branch too when the answer is a merge
    timeout: float = 600.0  # seconds for one run
    on_timeout: Mark = Mark.SKIP
    others: Mark = Mark.SKIP  # the mark of a different failure
    symptom: Symptom | None = None
    any_failure: bool = False
    repeats: int = 1  # runs that must pass before a build is good
    patience: int = PATIENCE  # skipped builds after which a gap is given up
    spread: int = 0  # builds that are judged to find every change of the result
    marks: tuple[str, ...] = ()  # verdicts set by hand, "BUILD=MARK"
    log: bool = False  # show what was judged, and run nothing
    repo: Path | None = None  # clone whose commits are ranked
    directory: Path | None = None  # directory for the state; None: that of the subject
    fresh: bool = False  # forget all judgements


def axes_of(packages: Sequence[str], good: Sequence[str], bad: Sequence[str]) -> tuple[PackageEnds, ...]:
    """Return the packages to vary with their ends: the first `--good` belongs to the first `--package`, and so on."""
    names = list(packages) or ["torch"]
    if max(len(good), len(bad)) > len(names) or len(set(names)) < len(names):
        raise UsageError("Give --good and --bad at most once for each --package, in the same order.")

    def of(words: Sequence[str], at: int) -> str | None:
        return words[at] if at < len(words) else None

    return tuple(PackageEnds(name, of(good, at), of(bad, at)) for at, name in enumerate(names))


def plan(
    axis: PackageEnds,
    subject: BuildSubject,
    request: BisectRequest,
    target: Target,
    directory: Path,
    saved: BisectState | None,
) -> tuple[BisectState, BuildSource]:
    """Return the state to start from, and the source of its builds.

    A saved state for the same question is continued. Builds are listed again only when an end is not among the saved
    builds. Raises ReproKitError when the saved state is for another question, or an end names no build.
    """
    if saved is not None:  # the ends of before, if the command line gives none
        axis = replace(axis, good=axis.good or saved.good, bad=axis.bad or saved.bad)
    selection = settle_source(axis, request.builds, target)
    if selection.clone:
        axis = _as_commits(axis, selection.clone)
    elif len(selection.pythons) > 1:
        axis = _as_interpreters(axis, selection.pythons, find_fix=request.find_fix)
    goal = "fix" if request.find_fix else "first failure"
    what = f"{subject.description} (any failure)" if request.any_failure else subject.description
    signature = None if request.any_failure else subject.signature
    about = "; ".join([what, axis.package, source_in_words(axis, selection), goal, *built_beside(selection)])
    if saved is not None and saved.about != about:
        raise UsageError(
            f"{directory} is about another question ({saved.about}); start anew with --fresh, or use another --output."
        )
    source = open_source(axis, selection, target, directory, find_fix=request.find_fix, state=saved)
    state = BisectState(
        SCHEMA,
        about,
        tuple(source.builds()),
        axis.package,
        source.description,
        what,
        find_fix=request.find_fix,
        patience=request.patience,
        signature=signature,
        command=request.again,
    )
    if saved is not None:
        state = replace(
            state,
            judgements=saved.judgements,
            signature=saved.signature or signature,
            repeats=saved.repeats,
            flaky=saved.flaky,
            repository=saved.repository,
            reference=saved.reference,
            unfinished=saved.unfinished,
        )
    return _with_ends(state, axis), source


def _as_commits(axis: PackageEnds, clone: Path) -> PackageEnds:
    """Return the axis with its ends as full commit hashes."""
    from repro_kit.builds.commits import commit_in, opened

    repo = opened(clone)

    def sha(word: str | None) -> str | None:
        return commit_in(repo, word).hexsha if word else None

    return replace(axis, good=sha(axis.good), bad=sha(axis.bad))


def _as_interpreters(axis: PackageEnds, pythons: Sequence[str], *, find_fix: bool) -> PackageEnds:
    """Return the axis with its ends as paths of interpreters; by default the first and the last interpreter."""
    first, last = (axis.bad, axis.good) if find_fix else (axis.good, axis.bad)

    def path(word: str) -> str:
        return find_python(word, Path.cwd(), os.environ)

    old, new = path(first) if first else pythons[0], path(last) if last else pythons[-1]
    return replace(axis, good=new if find_fix else old, bad=old if find_fix else new)


def _with_ends(state: BisectState, axis: PackageEnds) -> BisectState:
    """Return the state with its ends as names of builds."""
    last = state.builds[-1].name
    old_word, new_word = (axis.bad, axis.good) if state.find_fix else (axis.good, axis.bad)
    old, new = _end(state, old_word, "old"), _end(state, new_word, "new") or last
    names = [build.name for build in state.builds]
    if old is not None and names.index(old) >= names.index(new):
        if old == new:
            raise UsageError(f"Both ends are {old}; give two different builds.")
        hint = (
            "with --find-fix the build that works must come after the build that fails"
            if state.find_fix
            else "to find the build that fixed the failure, give --find-fix"
        )
        raise UsageError(f"{old} is newer than {new}; {hint}.")
    good, bad = (new, old) if state.find_fix else (old, new)
    return replace(state, good=good, bad=bad)


def _end(state: BisectState, word: str | None, side: Literal["old", "new"]) -> str | None:
    if word is None:
        return None
    try:
        return state.builds[resolve_build(state.builds, word, side)].name
    except NoSuchBuildError as error:
        raise UsageError(f"{error}.") from error


def overridden(state: BisectState, words: Sequence[str], now: str) -> BisectState:
    """Return the state with marks set by hand: ``BUILD=good|bad|skip``, or ``BUILD=forget`` to judge a build again."""
    for word in words:
        name, _, mark = word.rpartition("=")
        if not name or (mark != "forget" and mark not in set(Mark)):
            raise UsageError(f"--mark takes BUILD=good, =bad, =skip or =forget, not {word!r}.")
        try:
            build = state.builds[resolve_build(state.builds, name, "old")].name
        except NoSuchBuildError as error:
            raise UsageError(f"--mark: {error}.") from error
        judgement = state.current.get(build)
        if mark == "forget":
            state = state.without(build)
        elif (
            judgement is None or not judgement.by_hand or judgement.mark != mark
        ):  # a repeated command sets no mark twice
            state = state.with_judgement(Judgement(build, Mark(mark), "marked by hand", by_hand=True, at=now))
    return state
