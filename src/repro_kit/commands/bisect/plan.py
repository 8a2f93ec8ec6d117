"""From what the user asked for to a search: where the builds come from, which ends are meant, what is run on them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from repro_kit.bisect import Build, Judgement, Mark
from repro_kit.bisect.ends import NoSuchBuildError, is_day, position
from repro_kit.bisect.search import PATIENCE
from repro_kit.bisect.state import SCHEMA, State
from repro_kit.builds.installed import installed
from repro_kit.builds.source import BuildCommand, Source
from repro_kit.builds.target import Target
from repro_kit.builds.uv import Uv, Wants
from repro_kit.builds.wheels.index import PYPI, index_files
from repro_kit.builds.wheels.install import InterpreterSource, WheelSource
from repro_kit.builds.wheels.nightly_index import nightly_index, older, platform_of
from repro_kit.builds.wheels.web import without_credentials
from repro_kit.builds.wheels.wheel_cache import WheelCache
from repro_kit.builds.wheels.wheel_files import WheelFile, builds_of, day_of, directory_files, in_order, is_fitting
from repro_kit.errors import ReproKitError
from repro_kit.model.failure.signature import Signature
from repro_kit.session.subject import find_python

_GIB = 1024**3
_OLDEST_TORCH = "2.0"  # with torch.compile


@dataclass(frozen=True)
class Axis:
    """One package to vary, and the ends that the user names."""

    package: str = "torch"
    good: str | None = None
    bad: str | None = None


@dataclass(frozen=True)
class Where:
    """Where builds come from; at most one of the first five is set."""

    nightly: str | None = None  # platform
    index: str | None = None  # URL
    wheels: Path | None = None
    pythons: tuple[str, ...] = ()
    clone: Path | None = None
    build: BuildCommand = field(default_factory=BuildCommand)
    paths: tuple[str, ...] = ()
    pre: bool = False
    packages: tuple[str, ...] = ()  # `--with`
    constraints: tuple[str, ...] = ()
    cache: Path = Path()
    cache_limit: float = 20.0  # GiB
    offline: bool = False
    keep: bool = False


@dataclass(frozen=True)
class Ask:
    """What is asked, beside the builds."""

    subject: str  # what is run, in words
    find_fix: bool = False
    patience: int = PATIENCE
    signature: Signature | None = None
    command: str = ""


def plan(axis: Axis, ask: Ask, where: Where, target: Target, place: Path, known: State | None) -> tuple[State, Source]:
    """The state to go on from, and the source of its builds.

    A state that is there already is gone on from when it is about the same question; builds are listed anew only where
    an end is not among the known ones. Raises ReproKitError when it is about another one, or an end names no build.
    """
    axis = _settled(axis, known, ask)
    where = _chosen(axis, where, target)
    if where.clone:
        axis = _as_commits(axis, where.clone)
    elif len(where.pythons) > 1:
        axis = _as_interpreters(axis, where.pythons, find_fix=ask.find_fix)
    kind = "fix" if ask.find_fix else "first failure"
    about = "; ".join([ask.subject, axis.package, _what(axis, where), kind, *_beside(where)])
    if known is not None and known.about != about:
        raise ReproKitError(
            f"{place} is about another question ({known.about}); start anew with --fresh, or use another --output."
        )
    source = _source(axis, ask, where, target, place, known)
    state = State(
        SCHEMA,
        about,
        tuple(source.builds()),
        axis.package,
        source.what,
        ask.subject,
        find_fix=ask.find_fix,
        patience=ask.patience,
        signature=ask.signature,
        command=ask.command,
    )
    if known is not None:
        state = replace(
            state,
            judgements=known.judgements,
            signature=known.signature or ask.signature,
            repeats=known.repeats,
            flaky=known.flaky,
            repository=known.repository,
            reference=known.reference,
        )
    return _with_ends(state, axis), source


def _settled(axis: Axis, known: State | None, ask: Ask) -> Axis:
    """The ends as they were, where the command line leaves them open."""
    if known is None:
        return axis
    return replace(axis, good=axis.good or known.good, bad=axis.bad or known.bad)


def _chosen(axis: Axis, where: Where, target: Target) -> Where:
    """The source that the ends speak of where none was named: days and nightly versions are nightlies."""
    given = [where.nightly, where.index, where.wheels, where.clone, len(where.pythons) > 1 or None]
    if sum(it is not None for it in given) > 1:
        raise ReproKitError("Give one source of builds: --nightly, --index-url, --wheels, --git or several --python.")
    if any(it is not None for it in given) or axis.package != "torch":
        return where
    words = [word for word in (axis.good, axis.bad) if word]
    if any(is_day(word) or (".dev" in word and day_of(word)) for word in words):
        found = installed(target.python, "torch", os.environ)
        return replace(where, nightly=platform_of(found.version if found else None))
    return where


def _as_commits(axis: Axis, clone: Path) -> Axis:
    """The ends as full hashes."""
    from repro_kit.builds.git.commits import commit_in, opened

    repo = opened(clone)

    def sha(word: str | None) -> str | None:
        return commit_in(repo, word).hexsha if word else None

    return replace(axis, good=sha(axis.good), bad=sha(axis.bad))


def _as_interpreters(axis: Axis, pythons: Sequence[str], *, find_fix: bool) -> Axis:
    """The ends as the interpreters' own paths; by default the first and the last one."""
    first, last = (axis.bad, axis.good) if find_fix else (axis.good, axis.bad)

    def path(word: str) -> str:
        return find_python(word, Path.cwd(), os.environ)

    old, new = path(first) if first else pythons[0], path(last) if last else pythons[-1]
    return replace(axis, good=new if find_fix else old, bad=old if find_fix else new)


def _what(axis: Axis, where: Where) -> str:
    if where.nightly:
        return f"nightlies for {where.nightly}"
    if where.wheels:
        return f"wheels in {where.wheels}"
    if where.clone:
        return f"commits of {where.clone}"
    if len(where.pythons) > 1:
        return "interpreters " + ", ".join(where.pythons)
    return f"releases on {without_credentials(where.index or default_index())}"


def _beside(where: Where) -> list[str]:
    """What else a build is made of: judgements do not hold for another."""
    told = [f"with {without_credentials(it)}" for it in where.packages]
    told += [f"constraints {it}" for it in where.constraints]
    return [*told, f"built by {where.build.command}"] if where.build.command else told


def default_index() -> str:
    """The index of releases: PyPI, or what uv's and pip's variables say."""
    variables = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
    found = next((value for name in variables if (value := os.environ.get(name))), PYPI)
    return re.sub(r"^[\w.-]+=(?=\w+://)", "", found)  # uv takes NAME=URL as well


def _source(axis: Axis, ask: Ask, where: Where, target: Target, place: Path, known: State | None) -> Source:
    if len(where.pythons) > 1:
        return InterpreterSource(where.pythons, axis.package, os.environ)
    uv = Uv(where.cache / "uv", offline=where.offline)
    index = nightly_index(where.nightly) if where.nightly else where.index
    links = str(where.wheels.absolute()) if where.wheels else None
    wants = Wants(where.packages, where.constraints, index, links, prereleases=where.nightly is not None)
    if where.clone:
        from repro_kit.builds.git.commits import CommitSource

        old, new = (axis.bad, axis.good) if ask.find_fix else (axis.good, axis.bad)
        return CommitSource(
            where.clone,
            old,
            new or "HEAD",
            cwd=Path.cwd(),
            target=target,
            uv=uv,
            wants=wants,
            place=place / "envs",
            command=where.build,
            paths=where.paths,
            keep=where.keep,
        )
    return WheelSource(
        f"{axis.package}, {_what(axis, where)}",
        axis.package,
        _wheels(axis, ask, where, target, known),
        target=target,
        cache=WheelCache(
            where.cache / "wheels",
            int(where.cache_limit * _GIB),
            index=where.index or default_index(),
            offline=where.offline,
        ),
        uv=uv,
        wants=wants,
        place=place / "envs",
        keep=where.keep,
    )


def _wheels(axis: Axis, ask: Ask, where: Where, target: Target, known: State | None) -> Sequence[Build]:
    """The builds, oldest first: those known from before, where both ends are among them, else listed anew."""
    words = (axis.good, axis.bad)
    if known is not None and (where.offline or all(word is None or _is_there(known.builds, word) for word in words)):
        return known.builds
    index = nightly_index(where.nightly) if where.nightly else where.index or default_index()
    if where.offline and not where.wheels and urlsplit(index).scheme != "file":
        raise ReproKitError(
            f"The builds of {axis.package} were never listed here, which takes the network; leave out --offline once, "
            "or give --wheels."
        )
    files = directory_files(where.wheels) if where.wheels else index_files(index, axis.package)
    given = [WheelFile(unquote(it.rpartition("/")[2]), _as_url(it)) for it in words if it and _is_wheel(it)]
    listed = builds_of(axis.package, [*files, *given], target)
    pre = where.pre or bool(where.nightly or where.index or where.wheels)
    oldest = _OLDEST_TORCH if axis.package == "torch" else None
    wanted = [build for build in listed if is_fitting(build, pre=pre, named=words, oldest=oldest)]
    if not wanted:
        raise ReproKitError(_none(axis, where, target, files))
    old = axis.bad if ask.find_fix else axis.good
    since = (old if is_day(old) else day_of(old)) if old else None
    if since and where.nightly and not _is_wheel(old):
        wanted = in_order([*older(wanted, since), *wanted])
    return wanted


def _none(axis: Axis, where: Where, target: Target, files: Sequence[WheelFile]) -> str:
    python = f"Python {target.version[0]}.{target.version[1]}"
    if not files:
        return f"There is no wheel of {axis.package} in {_what(axis, where)}; check --package."
    return f"None of the {len(files)} files of {axis.package} in {_what(axis, where)} is a wheel for {python} here."


def _with_ends(state: State, axis: Axis) -> State:
    """The state with its ends as names of builds."""
    last = state.builds[-1].name
    old_word, new_word = (axis.bad, axis.good) if state.find_fix else (axis.good, axis.bad)
    old, new = _end(state, old_word, "old"), _end(state, new_word, "new") or last
    names = [build.name for build in state.builds]
    if old is not None and names.index(old) >= names.index(new):
        if old == new:
            raise ReproKitError(f"Both ends are {old}; give two different builds.")
        hint = (
            "the one that works must come after the one that fails"
            if state.find_fix
            else "when it was fixed is found with --find-fix"
        )
        raise ReproKitError(f"{old} is newer than {new}; {hint}.")
    good, bad = (new, old) if state.find_fix else (old, new)
    return replace(state, good=good, bad=bad)


def _end(state: State, word: str | None, side: Literal["old", "new"]) -> str | None:
    if word is None:
        return None
    try:
        return state.builds[position(state.builds, word, side)].name
    except NoSuchBuildError as error:
        raise ReproKitError(f"{error}.") from error


def _is_there(builds: Sequence[Build], word: str) -> bool:
    try:
        position(builds, word, "old")
    except NoSuchBuildError:
        return False
    return not is_day(word) or builds[0].date is None or word >= builds[0].date


def _is_wheel(word: str | None) -> bool:
    return bool(word) and (word or "").endswith(".whl")


def _as_url(word: str) -> str:
    try:
        scheme, path = urlsplit(word).scheme, Path(unquote(urlsplit(word).path))
    except ValueError as error:
        raise ReproKitError(f"{without_credentials(word)} is no URL ({error}).") from error
    if scheme not in ("", "file"):
        return word
    path = (path if scheme else Path(word)).absolute()
    if not path.is_file():
        raise ReproKitError(f"{word} is not there.")
    return path.as_uri()


def overridden(state: State, words: Sequence[str], now: str) -> State:
    """The state with marks set by hand: ``BUILD=good|bad|skip``, or ``BUILD=forget`` to have it judged again."""
    for word in words:
        name, _, mark = word.rpartition("=")
        if not name or (mark != "forget" and mark not in set(Mark)):
            raise ReproKitError(f"--mark takes BUILD=good, =bad, =skip or =forget, not {word!r}.")
        try:
            build = state.builds[position(state.builds, name, "old")].name
        except NoSuchBuildError as error:
            raise ReproKitError(f"--mark: {error}.") from error
        known = state.current.get(build)
        if mark == "forget":
            state = state.without(build)
        elif known is None or not known.by_hand or known.mark != mark:  # the same command may go on from here
            state = state.with_judgement(Judgement(build, Mark(mark), "marked by hand", by_hand=True, at=now))
    return state
