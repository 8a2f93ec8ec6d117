"""List the builds that the user selects: nightlies, releases, wheels in a directory, interpreters, commits."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from repro_kit.builds.build_source import BuildCommand, BuildSource, Target
from repro_kit.builds.install import ExtraPackages, InterpreterSource, Uv, WheelSource
from repro_kit.builds.interpreters import installed
from repro_kit.builds.web import without_credentials
from repro_kit.builds.wheel_cache import WheelCache
from repro_kit.builds.wheel_index import (
    PYPI,
    WheelFile,
    builds_of,
    day_of,
    directory_files,
    in_order,
    index_files,
    is_fitting,
    nightly_index,
    older,
    platform_of,
)
from repro_kit.errors import UsageError
from repro_kit.regressions.build import Build, NoSuchBuildError, is_day, resolve_build
from repro_kit.regressions.search_state import BisectState
from repro_kit.runner.places import instead_of

_GIB = 1024**3

_OLDEST_TORCH = "2.0"  # the first version with torch.compile


@dataclass(frozen=True)
class PackageEnds:
    """The package to vary, and the ends of the range that the user names."""

    package: str = "torch"
    good: str | None = None
    bad: str | None = None


@dataclass(frozen=True)
class BuildSelection:
    """The source of builds; at most one of the first five fields is set."""

    nightly: str | None = None  # platform of the nightlies: "cpu", "cu126"
    index: str | None = None  # URL
    wheels: Path | None = None
    pythons: tuple[str, ...] = ()  # several are themselves the builds; one is what builds are installed for
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


def settle_source(axis: PackageEnds, where: BuildSelection, target: Target) -> BuildSelection:
    """`where`, with nightlies as the source when no source is named and an end is a day or a nightly's version."""
    given = [where.nightly, where.index, where.wheels, where.clone, len(where.pythons) > 1 or None]
    if sum(source is not None for source in given) > 1:
        raise UsageError("Give one source of builds: --nightly, --index-url, --wheels, --git or several --python.")
    if any(source is not None for source in given) or axis.package != "torch":
        return where
    words = [word for word in (axis.good, axis.bad) if word]
    if any(is_day(word) or (".dev" in word and day_of(word)) for word in words):
        torch = installed(target.python, "torch", os.environ)
        return replace(where, nightly=platform_of(torch.version if torch else None))
    return where


def source_in_words(axis: PackageEnds, where: BuildSelection) -> str:
    """The source of builds in words."""
    if where.nightly:
        return f"nightlies for {where.nightly}"
    if where.wheels:
        return f"wheels in {where.wheels}"
    if where.clone:
        return f"commits of {where.clone}"
    if len(where.pythons) > 1:
        return "interpreters " + ", ".join(where.pythons)
    return f"releases on {without_credentials(where.index or default_index())}"


def built_beside(where: BuildSelection) -> list[str]:
    """What else belongs to every build, in words: judgements do not hold when it changes."""
    parts = [f"with {without_credentials(package)}" for package in where.packages]
    parts += [f"constraints {constraint}" for constraint in where.constraints]
    return [*parts, f"built by {where.build.command}"] if where.build.command else parts


def default_index() -> str:
    """The URL of the index of releases: PyPI, or the one that uv's and pip's variables name."""
    variables = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
    url = next((value for name in variables if (value := os.environ.get(name))), PYPI)
    return re.sub(r"^[\w.-]+=(?=\w+://)", "", url)  # uv takes NAME=URL as well


def open_source(
    axis: PackageEnds,
    where: BuildSelection,
    target: Target,
    directory: Path,
    *,
    find_fix: bool = False,
    state: BisectState | None = None,
) -> BuildSource:
    """The source that `where` selects. `state` is that of a search to continue. Raises UsageError."""
    if len(where.pythons) > 1:
        return InterpreterSource(where.pythons, axis.package, os.environ)
    uv = Uv(where.cache / "uv", offline=where.offline)
    index = nightly_index(where.nightly) if where.nightly else where.index
    links = str(where.wheels.absolute()) if where.wheels else None
    wants = ExtraPackages(where.packages, where.constraints, index, links, prereleases=where.nightly is not None)
    if where.clone:
        from repro_kit.builds.commits import CommitSource

        old, new = (axis.bad, axis.good) if find_fix else (axis.good, axis.bad)
        return CommitSource(
            where.clone,
            old,
            new or "HEAD",
            cwd=Path.cwd(),
            target=target,
            uv=uv,
            wants=wants,
            directory=instead_of(directory / "envs"),
            command=where.build,
            paths=where.paths,
            keep=where.keep,
        )
    return WheelSource(
        f"{axis.package}, {source_in_words(axis, where)}",
        axis.package,
        _wheels(axis, where, target, find_fix=find_fix, state=state),
        target=target,
        cache=WheelCache(
            where.cache / "wheels",
            int(where.cache_limit * _GIB),
            index=where.index or default_index(),
            offline=where.offline,
        ),
        uv=uv,
        wants=wants,
        directory=instead_of(directory / "envs"),
        keep=where.keep,
    )


def _wheels(
    axis: PackageEnds, where: BuildSelection, target: Target, *, find_fix: bool, state: BisectState | None
) -> Sequence[Build]:
    """The builds, oldest first: those of `state` when both ends are among them, else listed anew."""
    words = (axis.good, axis.bad)
    if state is not None and (where.offline or all(word is None or _is_there(state.builds, word) for word in words)):
        return state.builds
    index = nightly_index(where.nightly) if where.nightly else where.index or default_index()
    if where.offline and not where.wheels and urlsplit(index).scheme != "file":
        raise UsageError(
            f"The builds of {axis.package} have not been listed here yet, which needs the network. Run once without "
            "--offline, or give --wheels."
        )
    files = directory_files(where.wheels) if where.wheels else index_files(index, axis.package)
    given = [WheelFile(unquote(word.rpartition("/")[2]), _as_url(word)) for word in words if word and is_wheel(word)]
    listed = builds_of(axis.package, [*files, *given], target)
    pre = where.pre or bool(where.nightly or where.index or where.wheels)
    oldest = _OLDEST_TORCH if axis.package == "torch" else None
    wanted = [build for build in listed if is_fitting(build, pre=pre, named=words, oldest=oldest)]
    if not wanted:
        raise UsageError(_none(axis, where, target, files))
    old = axis.bad if find_fix else axis.good
    since = (old if is_day(old) else day_of(old)) if old else None
    if since and where.nightly and not is_wheel(old):
        wanted = in_order([*older(wanted, since), *wanted])
    return wanted


def _none(axis: PackageEnds, where: BuildSelection, target: Target, files: Sequence[WheelFile]) -> str:
    python = f"Python {target.version[0]}.{target.version[1]}"
    if not files:
        return f"There is no wheel of {axis.package} in {source_in_words(axis, where)}; check --package."
    return (
        f"None of the {len(files)} files of {axis.package} in {source_in_words(axis, where)} is a wheel for {python}."
    )


def _is_there(builds: Sequence[Build], word: str) -> bool:
    try:
        resolve_build(builds, word, "old")
    except NoSuchBuildError:
        return False
    return not is_day(word) or builds[0].date is None or word >= builds[0].date


def is_wheel(word: str | None) -> bool:
    """Whether `word` is the file name, path or URL of a wheel."""
    return bool(word) and (word or "").endswith(".whl")


def _as_url(word: str) -> str:
    try:
        scheme, path = urlsplit(word).scheme, Path(unquote(urlsplit(word).path))
    except ValueError as error:
        raise UsageError(f"{without_credentials(word)} is not a URL ({error}).") from error
    if scheme not in ("", "file"):
        return word
    path = (path if scheme else Path(word)).absolute()
    if not path.is_file():
        raise UsageError(f"{word} is not there.")
    return path.as_uri()
