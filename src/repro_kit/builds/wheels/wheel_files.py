"""Turn the files of an index or a directory into builds: which wheel fits, and in which order they were made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from packaging.utils import BuildTag, InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from repro_kit.bisect.build import Build
from repro_kit.builds.target import Target
from repro_kit.errors import UsageError

_DAY = re.compile(r"(20\d\d)(\d\d)(\d\d)")


@dataclass(frozen=True)
class WheelFile:
    """One file that an index or a directory offers."""

    filename: str
    url: str
    sha256: str | None = None
    uploaded: str | None = None  # ISO 8601, the day
    yanked: str = ""
    requires_python: str | None = None


@dataclass(frozen=True)
class _Fitting:
    version: Version
    order: tuple[int, BuildTag]  # the best file of a version has the lowest rank, then the highest build number
    file: WheelFile


def builds_of(package: str, files: Iterable[WheelFile], target: Target) -> list[Build]:
    """The builds of `package` that `target` can install, oldest first, one per version."""
    best: dict[Version, _Fitting] = {}
    for file in files:
        fitting = _fitting(package, file, target)
        if fitting is None:
            continue
        best_file = best.get(fitting.version)
        if best_file is None or _better(fitting, best_file):
            best[fitting.version] = fitting
    builds = [_build(fitting) for fitting in best.values()]
    return in_order(builds)


def in_order(builds: Sequence[Build]) -> list[Build]:
    """Oldest first: by day if every version has a day (nightlies), else by version."""
    keyed = [(day_of(build.version or "") or "", Version(build.version or "0"), build) for build in builds]
    daily = all(day for day, _, _ in keyed)
    keyed.sort(key=lambda entry: (entry[0] if daily else "", entry[1]))
    return [build for _, _, build in keyed]


def is_fitting(build: Build, *, pre: bool, named: Sequence[str | None], oldest: str | None = None) -> bool:
    """Whether to try `build`: it is named as an end, or is not withdrawn, not too old, and no unwanted pre-release."""
    if build.name in named or build.version in named:
        return True
    if build.yanked:
        return False
    version = Version(build.version or "0")
    if oldest and version < Version(oldest):
        return False
    return pre or not version.is_prerelease


def directory_files(directory: Path) -> list[WheelFile]:
    """The wheels below `directory`. Raises UsageError when there is no such directory."""
    if not directory.is_dir():
        raise UsageError(f"{directory} is not a directory; --wheels takes one that holds wheels.")
    paths = sorted(directory.absolute().rglob("*.whl"))
    return [WheelFile(path.name, path.as_uri()) for path in paths]


def day_of(version: str) -> str | None:
    """The day in a nightly's version, in ISO 8601: 2023-11-16 for ``2.2.0.dev20231116+cpu``; None without one."""
    day = _DAY.search(version)
    if day is None:
        return None
    try:
        return date(*map(int, day.groups())).isoformat()
    except ValueError:
        return None


def _fitting(package: str, file: WheelFile, target: Target) -> _Fitting | None:
    try:
        name, version, number, tags = parse_wheel_filename(file.filename)
    except (InvalidWheelFilename, ValueError):
        return None  # a source distribution, or another kind of file
    ranks = [target.tags[tag] for tag in tags if tag in target.tags]
    if name != canonicalize_name(package) or not ranks or not target.allows(file.requires_python):
        return None
    return _Fitting(version, (min(ranks), number), file)


def _better(first: _Fitting, second: _Fitting) -> bool:
    if bool(first.file.yanked) != bool(second.file.yanked):
        return not first.file.yanked
    (rank, number), (other_rank, other_number) = first.order, second.order
    return rank < other_rank or (rank == other_rank and number > other_number)


def _build(fitting: _Fitting) -> Build:
    file, version = fitting.file, str(fitting.version)
    return Build(
        name=version,
        version=version,
        date=day_of(version) or file.uploaded,
        url=file.url,
        sha256=file.sha256,
        yanked=file.yanked,
    )
