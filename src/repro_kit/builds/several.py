"""The builds that a command runs a case on: versions, a range of releases, interpreters, or the newest nightly."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from packaging.version import InvalidVersion, Version

from repro_kit.builds.build_source import BuildSource, UnusableError, target_of
from repro_kit.builds.catalog import BuildSelection, PackageEnds, open_source
from repro_kit.builds.install import InterpreterSource
from repro_kit.builds.interpreters import default_python, find_python, installed
from repro_kit.builds.web import without_credentials
from repro_kit.builds.wheel_index import platform_of
from repro_kit.errors import CannotRunError, UsageError
from repro_kit.regressions.build import Build, NoSuchBuildError, resolve_build
from repro_kit.runner.places import cache_home, scratch
from repro_kit.ui import Ui

_PINNED = re.compile(r"[\w.+!-]+@.*[/\\]")  # "2.15.0@/opt/torch/bin/python": an interpreter with its version


@dataclass(frozen=True)
class BuildChoice:
    """What the user asks for. Without `on` and `releases`: the newest build."""

    on: tuple[str, ...] = ()  # versions, days, commits of builds, or (VERSION@)PATH of interpreters
    releases: str | None = None  # "2.10:", ":2.13" or "2.10:2.13", both ends included
    package: str = "torch"
    python: str | None = None  # the interpreter that builds are installed for
    selection: BuildSelection = field(default_factory=BuildSelection)
    side: Literal["old", "new"] = "old"  # of a day without a build: the next one, or the one before


@dataclass(frozen=True)
class BuildLine:
    """Builds that follow one another, and those of them that were chosen."""

    name: str  # "releases", "nightly cpu", "interpreters"
    words: str  # the options that choose the line
    source: BuildSource
    builds: Sequence[Build]  # oldest first
    chosen: Sequence[Build]


def lines_of(choice: BuildChoice, directory: Path) -> list[BuildLine]:
    """The lines that `choice` names. Environments are made below `directory`. Raises ReproKitError."""
    pythons = [word for word in choice.on if _is_interpreter(word)]
    words = [word for word in choice.on if word not in pythons]
    lines = []
    if pythons:
        lines.append(_interpreters(choice, pythons))
    if words or choice.releases or not pythons:
        lines.append(_line(choice, words, directory))
    return lines


def _interpreters(choice: BuildChoice, words: Sequence[str]) -> BuildLine:
    """Environments that exist. The name of a build has the version, since an environment may be upgraded."""
    expected = {}
    for word in words:
        version, _, path = word.rpartition("@") if _PINNED.match(word) else ("", "", word)
        expected[find_python(path, Path.cwd(), os.environ)] = version
    source = InterpreterSource(tuple(expected), choice.package, os.environ)
    builds = []
    for build in source.builds():
        wanted = expected[build.name]
        if wanted and wanted != build.version:
            raise UsageError(f"{build.name} has {choice.package} {build.version} now, not {wanted}.")
        builds.append(replace(build, name=f"{build.version}@{build.name}", title="") if build.version else build)
    builds.sort(key=version_of)
    name, options = _of_package(choice, "interpreters", [])
    return BuildLine(name, options, source, builds, builds)


def _line(choice: BuildChoice, words: Sequence[str], directory: Path) -> BuildLine:
    target = target_of(find_python(choice.python, Path.cwd(), os.environ))
    ends = PackageEnds(choice.package, bad=words[0] if len(words) == 1 else None)  # may be the path of a wheel
    source = open_source(ends, choice.selection, target, directory)
    builds = source.builds()
    wanted = {_named(builds, word, choice.side).name for word in words}
    if choice.releases:
        wanted |= {build.name for build in within(builds, choice.releases)}
    if not wanted:
        wanted = {builds[-1].name}
    name, options = _described(choice)
    return BuildLine(name, options, source, builds, [build for build in builds if build.name in wanted])


def version_of(build: Build) -> Version:
    """The version of a build, to compare ages; 0 if the build has none that can be compared."""
    try:
        return Version(build.version or "0")
    except InvalidVersion:  # an environment may hold a package with any words as its version
        return Version("0")


def within(builds: Sequence[Build], span: str) -> list[Build]:
    """The builds in a span of versions: ``2.10:2.13`` includes 2.10.0 and 2.13.1. Raises UsageError."""
    first, colon, last = span.partition(":")
    try:
        low, high = Version(first or "0"), Version(last) if last else None
    except InvalidVersion as error:
        raise UsageError(f"--releases takes a range like 2.10: or 2.10:2.13, not {span!r}.") from error
    if not colon:
        raise UsageError(f"--releases takes a range like {first}: or {first}:2.13; --on takes single versions.")
    chosen = []
    for build in builds:
        version = version_of(build)
        if version >= low and (high is None or version.release[: len(high.release)] <= high.release):
            chosen.append(build)
    if not chosen:
        raise UsageError(f"No build is in {span} ({builds[0].shown} … {builds[-1].shown}).")
    return chosen


def _named(builds: Sequence[Build], word: str, side: Literal["old", "new"]) -> Build:
    try:
        return builds[resolve_build(builds, word, side)]
    except NoSuchBuildError as error:
        raise UsageError(f"--on: {error}.") from error


def _is_interpreter(word: str) -> bool:
    """Whether a word names an interpreter or an environment, not a wheel."""
    return os.sep in word and not word.endswith(".whl") and "://" not in word


def _described(choice: BuildChoice) -> tuple[str, str]:
    """The name of the line, and the options that choose it."""
    where, options = choice.selection, []
    name = "releases"
    if where.nightly:
        name, options = f"nightly {where.nightly}", ["--nightly", where.nightly]
    elif where.wheels:
        name, options = f"wheels in {where.wheels.name}", ["--wheels", str(where.wheels.absolute())]
    elif where.index:
        index = without_credentials(where.index)
        name, options = f"index {index}", ["--index-url", index]
    return _of_package(choice, name, options)


def _of_package(choice: BuildChoice, name: str, options: Sequence[str]) -> tuple[str, str]:
    if choice.package != "torch":
        name, options = f"{choice.package} {name}", [*options, "--package", choice.package]
    return name, shlex.join(options)


@contextmanager
def newest_nightly(python: str | None, ui: Ui) -> Iterator[str]:
    """The interpreter of a temporary environment, with the Python version and the platform (CPU, CUDA) of `python`.

    Raises ReproKitError when the nightlies cannot be listed, or when the newest one cannot be installed.
    """
    base = python or default_python(os.environ)
    target = target_of(base)
    torch = installed(base, "torch", os.environ)
    where = BuildSelection(nightly=platform_of(torch.version if torch else None), cache=cache_home().absolute())
    with scratch() as directory, ui.stage("nightly"):
        source = open_source(PackageEnds(), where, target, directory)
        build = source.builds()[-1]
        ui.progress(f"installing {build.shown}")
        try:
            with source.ready(build) as ready:
                ui.done(f"torch {build.shown}")
                yield ready.python
        except UnusableError as error:
            raise CannotRunError(f"torch {build.shown} does not install: {error}.") from error
        finally:
            source.close()
