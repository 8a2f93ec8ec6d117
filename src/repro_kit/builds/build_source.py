"""The interface of a source of builds.

Implemented for wheels in `wheels/install.py`, for commits in `git/commits.py`, for interpreters in `interpreters.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from repro_kit.bisect.build import Build


class UnusableError(Exception):
    """A build cannot be made ready; the message says why, in one sentence."""


@dataclass(frozen=True)
class Ready:
    """A build that can be run: its interpreter, and its surroundings."""

    python: str
    variables: Mapping[str, str] = field(default_factory=dict)  # environment variables of its processes
    cwd: Path | None = None  # the working directory, if it belongs to the build
    version: str | None = None
    commit: str | None = None
    repository: str | None = None  # URL on GitHub


@dataclass(frozen=True)
class BuildCommand:
    """How a commit becomes a build: a shell command, run in its work tree, and its time limit in seconds."""

    command: str | None = None
    timeout: float = 7200.0


class BuildSource(ABC):
    """A source of builds of one package."""

    description: str  # "torch nightlies for cpu"

    @abstractmethod
    def builds(self) -> Sequence[Build]:
        """All builds, oldest first."""

    @abstractmethod
    def ready(self, build: Build) -> AbstractContextManager[Ready]:
        """Make `build` ready, and clean up afterwards. Raises UnusableError when this fails."""

    def fetch(self, build: Build) -> None:  # noqa: B027
        """Download ahead what `ready` will need; called from other threads. `ready` reports the failures."""

    def close(self) -> None:  # noqa: B027
        """End running downloads."""
