"""A build, the judgement on one, and the build that a user means by a version, day, file, commit or path."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal
from urllib.parse import unquote

from packaging.version import InvalidVersion, Version


class Mark(StrEnum):
    """The kind of a build: without the failure, with it, or impossible to judge."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"


@dataclass(frozen=True)
class Build:
    """One build of the software under suspicion. `name` is unique within its source.

    A wheel has a `url`, an interpreter a `python`.
    """

    name: str  # "2.14.0.dev20260103+cpu", "3f2a91c0b7", "/opt/a/bin/python"
    version: str | None = None
    date: str | None = None  # ISO 8601, the day
    commit: str | None = None
    url: str | None = None
    sha256: str | None = None
    python: str | None = None
    title: str = ""  # of the commit
    yanked: str = ""  # why its index has withdrawn it (PEP 592)

    @property
    def shown(self) -> str:
        """The name, with the date and the title if they add something."""
        dated = self.date and self.date.replace("-", "") not in self.name
        words = [self.name, f"({self.date})" if dated else "", self.title]
        return " ".join(word for word in words if word)


@dataclass(frozen=True)
class Judgement:
    """The judgement on a build, and how it was made."""

    build: str
    mark: Mark
    reason: str  # the observation, in one sentence
    step: str = ""  # why this build was chosen
    runs: int = 0
    failures: int = 0  # runs that failed with the signature
    other: str = ""  # another failure that occurred, in words
    version: str | None = None  # the version that was installed
    commit: str | None = None  # the commit that the build says it was made from
    install_seconds: float = 0.0
    oracle_seconds: float = 0.0
    overhead_seconds: float = 0.0  # the rest of the step
    by_hand: bool = False
    at: str = ""  # ISO 8601, UTC

    @property
    def seconds(self) -> float:
        """The seconds of the whole step."""
        return self.install_seconds + self.oracle_seconds + self.overhead_seconds


_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")


class NoSuchBuildError(Exception):
    """No build matches; the message says which builds there are."""


def is_day(word: str) -> bool:
    """Whether `word` is a day in ISO 8601 (YYYY-MM-DD)."""
    return bool(_DAY.fullmatch(word))


def resolve_build(builds: Sequence[Build], word: str, side: Literal["old", "new"]) -> int:
    """The index of the build that `word` means. Raises NoSuchBuildError.

    For a day without a build, it is the nearest build within the range: the next one for the older end, the previous
    one for the newer end. For a day with several builds, it is the first for the older end, the last for the newer.
    """
    if is_day(word):
        return _by_day(builds, word, side)
    for same in (_same_name, _same_version, _same_file, _same_commit):
        matches = [index for index, build in enumerate(builds) if same(build, word)]
        if matches:
            return matches[0] if side == "old" else matches[-1]
    raise NoSuchBuildError(f"{word} is none of the {len(builds)} builds{_span(builds)}")


def _by_day(builds: Sequence[Build], day: str, side: Literal["old", "new"]) -> int:
    dated = [(build.date, index) for index, build in enumerate(builds) if build.date]
    if not dated:
        raise NoSuchBuildError(f"no build has a date; give versions in place of {day}")
    if side == "old":
        matches = [index for date, index in dated if date >= day]
    else:
        matches = [index for date, index in dated if date <= day]
    if not matches:
        raise NoSuchBuildError(f"no build is from {day} or {'later' if side == 'old' else 'before'}{_span(builds)}")
    return min(matches) if side == "old" else max(matches)


def _span(builds: Sequence[Build]) -> str:
    return f" ({builds[0].shown} … {builds[-1].shown})" if builds else ""


def _same_name(build: Build, word: str) -> bool:
    return word in (build.name, build.python)


def _same_version(build: Build, word: str) -> bool:
    """Whether the versions are equal. A version without a local part (``+cpu``) matches any local part."""
    try:
        asked, version = Version(word), Version(build.version or "")
    except InvalidVersion:
        return False
    return version == asked or (asked.local is None and Version(version.public) == asked)


def _same_file(build: Build, word: str) -> bool:
    return bool(build.url) and unquote(word.rpartition("/")[2]) == unquote((build.url or "").rpartition("/")[2])


def _same_commit(build: Build, word: str) -> bool:
    return bool(build.commit and _COMMIT.fullmatch(word) and build.commit.startswith(word))
