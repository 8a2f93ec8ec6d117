"""Builds that are wheels: each is installed into a separate environment, which is removed afterwards."""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from packaging.version import Version

from repro_kit.bisect.build import Build
from repro_kit.builds.build_source import BuildSource, Ready, UnusableError
from repro_kit.builds.installed import Installed, installed
from repro_kit.builds.target import Target
from repro_kit.builds.uv import Uv, Wants, activated
from repro_kit.builds.wheels.wheel_cache import StoppedError, WheelCache
from repro_kit.errors import ReproKitError, UsageError


class WheelSource(BuildSource):
    """Wheels of `package`; environments are made below `directory`."""

    def __init__(
        self,
        description: str,
        package: str,
        listed: Sequence[Build],
        *,
        target: Target,
        cache: WheelCache,
        uv: Uv,
        wants: Wants,
        directory: Path,
        keep: bool = False,
    ) -> None:
        self.description = description
        self._package = package
        self._listed = listed
        self._target = target
        self._cache = cache
        self._uv = uv
        self._wants = wants
        self._directory = directory
        self._keep = keep
        self._removing: list[threading.Thread] = []

    def builds(self) -> Sequence[Build]:
        """All builds, oldest first."""
        return self._listed

    @contextmanager
    def ready(self, build: Build) -> Iterator[Ready]:
        """Install `build`, and remove its environment afterwards. Raises UnusableError when the installation fails."""
        directory = self._directory / file_name(build.name)
        try:
            cached = self._cache.has(build)
            with self._cache.using(build) as wheel:
                python = self._uv.make(directory, self._target)
                self._uv.install(python, f"{self._package} @ {wheel.as_uri()}", self._wants, directory, cached=cached)
            yield self._checked(build, python, directory)
        finally:
            if not self._keep:
                self._remove(directory)
            self._uv.trim(self._cache.limit, self._package)

    def fetch(self, build: Build) -> None:
        """Download the wheel of `build`."""
        with suppress(UnusableError, ReproKitError, StoppedError):
            self._cache.fetch(build)

    def close(self) -> None:
        """End running downloads, and wait until environments are removed."""
        self._cache.stop.set()
        for thread in self._removing:
            thread.join()

    def _remove(self, directory: Path) -> None:
        """Remove an environment while the next one is made: torch's has tens of thousands of files."""
        aside = directory.with_name(f".gone-{time.monotonic_ns()}")
        with suppress(FileNotFoundError):
            directory.rename(aside)
        thread = threading.Thread(target=shutil.rmtree, args=(aside, True), name=f"remove {directory.name}")
        thread.start()
        self._removing.append(thread)

    def _checked(self, build: Build, python: str, directory: Path) -> Ready:
        variables = activated(directory, os.environ)
        package = installed(python, self._package, {**os.environ, **variables}) or Installed()
        if package.origin and not Path(package.origin).resolve().is_relative_to(directory.resolve()):
            raise UsageError(
                f"{self._package} would be imported from {package.origin}, not from the build that was installed; "
                "remove that directory from PYTHONPATH."
            )
        if package.version and build.version and Version(package.version) != Version(build.version):
            raise UsageError(
                f"{self._package} {package.version} was installed in place of {build.version}; leave {self._package} "
                "out of --with and --constraint."
            )
        return Ready(python, variables, version=package.version, commit=package.commit, repository=package.repository)


class InterpreterSource(BuildSource):
    """Interpreters that exist already, in the order given; nothing is installed."""

    def __init__(self, pythons: Sequence[str], package: str, env: Mapping[str, str]) -> None:
        self.description = f"interpreters with {package}"
        self._builds = [_of_interpreter(python, package, env) for python in pythons]

    def builds(self) -> Sequence[Build]:
        """One build for each interpreter."""
        return self._builds

    @contextmanager
    def ready(self, build: Build) -> Iterator[Ready]:
        """The interpreter, unchanged."""
        python = build.python or build.name
        directory = Path(python).parent
        variables = {"PATH": os.pathsep.join([str(directory), os.environ.get("PATH", os.defpath)])}
        yield Ready(python, variables, version=build.version, commit=build.commit)


def _of_interpreter(python: str, package: str, env: Mapping[str, str]) -> Build:
    distribution = installed(python, package, env)
    if distribution is None:
        raise UsageError(f"{python} does not work as a Python interpreter; give others with --python.")
    if distribution.version is None and distribution.origin is None:
        raise UsageError(f"{python} has no {package}; give interpreters that have it, or name another --package.")
    return Build(
        python,
        distribution.version,
        commit=distribution.commit,
        python=python,
        title=f"{package} {distribution.version or ''}",
    )


def file_name(name: str) -> str:
    """`name` as the name of a file."""
    return re.sub(r"[^A-Za-z0-9._+-]", "_", name)[-100:]
