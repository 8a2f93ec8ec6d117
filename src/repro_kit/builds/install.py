"""Environments made with uv: one for each build, removed afterwards, and never the user's own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from repro_kit.builds.build_source import BuildSource, Ready, Target, UnusableError
from repro_kit.builds.interpreters import Installed, installed
from repro_kit.builds.wheel_cache import StoppedError, WheelCache
from repro_kit.errors import ReproKitError, StageError, UsageError
from repro_kit.regressions.build import Build
from repro_kit.runner import supervised

#: Variables that would direct uv or an interpreter to the user's own environment.
_FOREIGN = ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "UV_PROJECT", "UV_PYTHON")
_SECONDS = 3600  # for one installation
_BARE = re.compile(r"[A-Za-z0-9._-]+")
_NO_NETWORK = re.compile(r"error sending request|dns error|failed to lookup address|connection refused|timed out", re.I)
_NO_SPACE = re.compile(r"no space left on device|disk quota exceeded", re.I)


@dataclass(frozen=True)
class ExtraPackages:
    """The packages that every environment gets in addition to the build, and their sources."""

    packages: tuple[str, ...] = ()  # requirements: "transformers==4.57"
    constraints: tuple[str, ...] = ()  # files
    index: str | None = None  # URL of an index, in addition to the default one
    links: str | None = None  # a directory of wheels, in addition to the index
    prereleases: bool = False  # allow pre-releases of packages without a version: companions of a nightly


class Uv:
    """The uv program, with its cache in the directory `cache`."""

    def __init__(self, cache: Path, *, offline: bool = False, env: Mapping[str, str] | None = None) -> None:
        self.cache = cache
        self.offline = offline
        self._program = _program()
        self._env = variables_of_uv(os.environ if env is None else env)

    def make(self, directory: Path, target: Target) -> str:
        """Make a new, empty environment in `directory` with the target's Python. Returns its interpreter."""
        shutil.rmtree(directory, ignore_errors=True)
        directory.parent.mkdir(parents=True, exist_ok=True)
        self._run(["venv", "--quiet", "--python", target.base, "--no-project", str(directory)], directory.parent)
        return str(interpreter_in(directory))

    def install(
        self, python: str, requirement: str | None, wants: ExtraPackages, directory: Path, *, cached: bool = False
    ) -> None:
        """Install `requirement` and the wanted packages; offline first if the wheel is `cached`.

        Modules are compiled to bytecode: runs of a `repro.py` write none, and would compile torch's anew each time.

        The versions that the user pins win, even if the build asks for others. If a pinned package asks for another
        build, the build wins. Raises UnusableError with uv's message when the installation fails.
        """
        command = ["pip", "install", "--quiet", "--compile-bytecode", "--python", python, *self._choices(wants)]
        direct = [requirement] if requirement else []
        requirements = [*direct, *(_written(package, wants) for package in wants.packages)]
        pinned = [package for package in wants.packages if "==" in package or "@" in package]
        ways = [[*command, *_overrides(pinned, directory / "overrides.txt"), *requirements]]
        if pinned and direct:
            ways.append([*command, *_overrides([*pinned, *direct], directory / "overrides-all.txt"), *requirements])
        if cached and not self.offline:
            ways = [[*way, *more] for way in ways for more in (["--offline"], [])]
        for way in ways[:-1]:
            with suppress(UnusableError):
                self._run(way, directory)
                return
        self._run(ways[-1], directory)

    def trim(self, limit: int, package: str) -> None:
        """Bring the cache below `limit` bytes. `package` goes first, as every build leaves a copy of it; then all."""
        for packages in ([package], []):
            if _size(self.cache) > limit:
                with suppress(UnusableError):
                    self._run(["cache", "clean", "--quiet", *packages], Path.cwd())

    def _choices(self, wants: ExtraPackages) -> list[str]:
        chosen: list[str] = []
        if wants.index:
            chosen += ["--index", wants.index, "--index-strategy", "unsafe-best-match"]
        if wants.links:
            chosen += ["--find-links", wants.links]
        for file in wants.constraints:
            chosen += ["--constraint", file]
        return chosen

    def _run(self, arguments: Sequence[str], cwd: Path) -> None:
        command = [self._program, *arguments, "--cache-dir", str(self.cache), "--color", "never"]
        if self.offline and "--offline" not in arguments:
            command.append("--offline")
        try:
            done = supervised.run(command, cwd=cwd, env=self._env, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            raise UnusableError(f"its installation did not end within {_SECONDS} s") from None
        if done.returncode != 0:
            text = done.stderr or done.stdout
            _refuse_to_blame_the_build(text, cwd)
            raise UnusableError(_complaint(text))


def variables_of_uv(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that uv gets: `env` without the user's own environment, with pip's index if uv has none."""
    variables = {name: value for name, value in env.items() if name not in _FOREIGN}
    if env.get("PIP_INDEX_URL") and not (env.get("UV_DEFAULT_INDEX") or env.get("UV_INDEX_URL")):
        variables["UV_DEFAULT_INDEX"] = env["PIP_INDEX_URL"]  # builds are listed there, so what they need is there
    return variables


def interpreter_in(directory: Path) -> Path:
    """The interpreter of the environment in `directory`."""
    windows = directory / "Scripts" / "python.exe"
    return windows if windows.exists() else directory / "bin" / "python"


def activated(directory: Path, env: Mapping[str, str]) -> dict[str, str]:
    """The variables that activating the environment in `directory` would set."""
    bin_directory = str(interpreter_in(directory).parent)
    return {"VIRTUAL_ENV": str(directory), "PATH": os.pathsep.join([bin_directory, env.get("PATH", os.defpath)])}


def _overrides(requirements: Sequence[str], file: Path) -> list[str]:
    """The options that let `requirements` win over what packages ask for."""
    if not requirements:
        return []
    file.write_text("".join(f"{requirement}\n" for requirement in requirements), encoding="utf-8")
    return ["--override", str(file)]


def _size(directory: Path) -> int:
    """The bytes below `directory`. A file with several names (hard links) counts once."""
    sizes: dict[int, int] = {}
    for at, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                status = Path(at, name).lstat()
                sizes[status.st_ino] = status.st_size
    return sum(sizes.values())


def _written(package: str, wants: ExtraPackages) -> str:
    """The requirement for a wanted package; with `wants.prereleases`, one without a version may be a pre-release."""
    return f"{package}>=0.dev0" if wants.prereleases and _BARE.fullmatch(package) else package


def _refuse_to_blame_the_build(text: str, directory: Path) -> None:
    """Raise StageError for failures that every build would share: no network, no space on the disk."""
    if _NO_SPACE.search(text):
        raise StageError(
            f"The disk is full at {directory}; free some space (or lower --cache-size) and run the command again."
        )
    if _NO_NETWORK.search(text):
        raise StageError(f"The network does not answer ({_complaint(text)}); run the command again, or with --offline.")


def _complaint(text: str) -> str:
    """The message of uv's failure, on one line."""
    lines = [line.strip(" ×╰─▶│├") for line in text.splitlines()]
    complaint = [line for line in lines if line and not line.startswith(("warning:", "hint:"))]
    causes = [line.removeprefix("cause:").strip() for line in complaint if line.startswith("cause:")]
    return (causes[-1] if causes else " ".join(complaint))[:400] or "uv failed without a message"


def _program() -> str:
    try:
        from uv import find_uv_bin

        return os.fsdecode(find_uv_bin())
    except (ImportError, FileNotFoundError):
        program = shutil.which("uv")
    if program is None:
        raise StageError("uv is not installed; `pip install uv` (environments are made with it).")
    return program


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
        wants: ExtraPackages,
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
