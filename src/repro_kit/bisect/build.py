"""A build, and what was found out about one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Mark(StrEnum):
    """What a build is: without the failure, with it, or of no use to tell."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"


@dataclass(frozen=True)
class Build:
    """One build of the software under suspicion; `name` tells it from all others of its source.

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
    yanked: str = ""  # why its index has withdrawn it

    @property
    def shown(self) -> str:
        """Name and what else tells a reader which one it is."""
        dated = self.date and self.date.replace("-", "") not in self.name
        words = [self.name, f"({self.date})" if dated else "", self.title]
        return " ".join(word for word in words if word)


@dataclass(frozen=True)
class Judgement:
    """What was found out about a build, and how."""

    build: str
    mark: Mark
    reason: str  # what was seen, in one sentence
    step: str = ""  # why this build was looked at
    runs: int = 0
    failures: int = 0  # runs that failed with the signature
    other: str = ""  # another failure that was met, in words
    version: str | None = None  # that was installed
    commit: str | None = None  # that the build says it was made from
    install_seconds: float = 0.0
    oracle_seconds: float = 0.0
    overhead_seconds: float = 0.0  # of the whole step, what was neither of both
    by_hand: bool = False
    at: str = ""  # ISO 8601, UTC

    @property
    def seconds(self) -> float:
        """The whole step."""
        return self.install_seconds + self.oracle_seconds + self.overhead_seconds
