"""What every source of builds offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from repro_kit.bisect import Build


class UnusableError(Exception):
    """A build that cannot be made ready; the message says why, in one sentence."""


@dataclass(frozen=True)
class Ready:
    """A build that can be run: its interpreter, and what is around it."""

    python: str
    variables: Mapping[str, str] = field(default_factory=dict)  # of its processes
    cwd: Path | None = None  # where the command runs, if that belongs to the build
    version: str | None = None
    commit: str | None = None
    repository: str | None = None  # URL on GitHub


@dataclass(frozen=True)
class BuildCommand:
    """How a commit becomes a build: a shell command run in its work tree, and how long it may take."""

    command: str | None = None
    timeout: float = 7200.0


class BuildSource(Protocol):
    """Builds of one piece of software."""

    what: str  # "torch nightlies for cpu"

    def builds(self) -> Sequence[Build]:
        """All builds, oldest first. Raises ReproKitError when they cannot be listed."""
        ...

    def ready(self, build: Build) -> AbstractContextManager[Ready]:
        """Make `build` ready, and clean up afterwards. Raises UnusableError when it cannot be."""
        ...

    def fetch(self, build: Build) -> None:
        """Get beforehand what `ready` would wait for; called from other threads. Failures are left to `ready`."""
        ...

    def close(self) -> None:
        """End what `fetch` is still at."""
        ...
