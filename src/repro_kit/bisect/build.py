"""A build, and the judgement on one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
