"""The interface of a source of builds, and the interpreter that all its builds are installed for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags, platform_tags

from repro_kit.errors import UsageError
from repro_kit.regressions.build import Build
from repro_kit.runner.ask import Probe, Question


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


_QUESTION = Question(
    seconds=60,
    flags=("-I",),
    code="""
import json, sys, sysconfig
print(json.dumps({
    "base": getattr(sys, "_base_executable", sys.executable) or sys.executable,
    "version": list(sys.version_info[:3]),
    "implementation": sys.implementation.name,
    "free": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
}))
""",
)


@dataclass(frozen=True)
class _Told:
    base: str
    version: tuple[int, int, int]
    implementation: str
    free: bool


@dataclass(frozen=True)
class Target:
    """The Python of all environments; `base` is the interpreter outside of any virtual environment."""

    python: str
    base: str
    version: tuple[int, int, int]
    free_threaded: bool = False

    @cached_property
    def tags(self) -> dict[Tag, int]:
        """Tags of the wheels that this Python can install (PEP 425), each with its rank; the lowest is the best."""
        platforms = list(platform_tags())
        short = self.version[:2]
        interpreter = f"cp{short[0]}{short[1]}"
        abi = interpreter + ("t" if self.free_threaded else "")
        supported = [*cpython_tags(short, [abi], platforms), *compatible_tags(short, interpreter, platforms)]
        return {tag: rank for rank, tag in reversed(list(enumerate(supported)))}

    def allows(self, requires_python: str | None) -> bool:
        """Whether a wheel's Requires-Python allows this Python. An unreadable one allows all."""
        try:
            return not requires_python or SpecifierSet(requires_python).contains(".".join(map(str, self.version)))
        except InvalidSpecifier:
            return True


def target_of(python: str) -> Target:
    """The target for interpreter `python`. Raises UsageError when it does not run, or is not CPython."""
    told = Probe(python).ask(_QUESTION, _Told)
    if told.implementation != "cpython":
        raise UsageError(f"{python} is {told.implementation}; builds are made for CPython, give --python PATH.")
    return Target(python, told.base, told.version, told.free)
