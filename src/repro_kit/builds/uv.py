"""Environments made with uv: one a build, each on its own, never the user's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from repro_kit.builds.source import UnusableError
from repro_kit.builds.target import Target
from repro_kit.errors import StageError
from repro_kit.runner import kept

#: Variables that would lead uv or an interpreter to the user's own environment.
_FOREIGN = ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "UV_PROJECT", "UV_PYTHON")
_SECONDS = 3600  # for one installation
_BARE = re.compile(r"[A-Za-z0-9._-]+")
_NO_NETWORK = re.compile(r"error sending request|dns error|failed to lookup address|connection refused|timed out", re.I)
_NO_SPACE = re.compile(r"no space left on device|disk quota exceeded", re.I)


@dataclass(frozen=True)
class Wants:
    """What goes into every environment beside the build, and where it comes from."""

    packages: tuple[str, ...] = ()  # requirements: "transformers==4.57"
    constraints: tuple[str, ...] = ()  # files
    index: str | None = None  # asked beside the default one
    links: str | None = None  # a directory of wheels, likewise
    prereleases: bool = False  # of packages that are named without a version: companions of a nightly


class Uv:
    """The uv program, with a cache of its own in `cache`."""

    def __init__(self, cache: Path, *, offline: bool = False, env: Mapping[str, str] | None = None) -> None:
        self.cache = cache
        self.offline = offline
        self._program = _program()
        self._env = variables_of_uv(os.environ if env is None else env)

    def make(self, place: Path, target: Target) -> str:
        """A new, empty environment at `place` with the target's Python; its interpreter."""
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        self._run(["venv", "--quiet", "--python", target.base, "--no-project", str(place)], place.parent)
        return str(interpreter_in(place))

    def install(self, python: str, requirement: str | None, wants: Wants, place: Path, *, cached: bool = False) -> None:
        """Install `requirement` and what is wanted beside it; offline at first where the wheel is `cached`.

        What the user pins counts, even where the build asks for another version; where a pinned package asks for
        another build, the build counts. Raises UnusableError with uv's own words when it cannot be done.
        """
        command = ["pip", "install", "--quiet", "--python", python, *self._choices(wants)]
        direct = [requirement] if requirement else []
        requirements = [*direct, *(_written(package, wants) for package in wants.packages)]
        pinned = [package for package in wants.packages if "==" in package or "@" in package]
        ways = [[*command, *_overrides(pinned, place / "overrides.txt"), *requirements]]
        if pinned and direct:
            ways.append([*command, *_overrides([*pinned, *direct], place / "overrides-all.txt"), *requirements])
        if cached and not self.offline:
            ways = [[*way, *more] for way in ways for more in (["--offline"], [])]
        for way in ways[:-1]:
            with suppress(UnusableError):
                self._run(way, place)
                return
        self._run(ways[-1], place)

    def trim(self, limit: int, package: str) -> None:
        """Bring the cache below `limit` bytes: first goes `package`, of which each build leaves a copy, then all."""
        for what in ([package], []):
            if _size(self.cache) > limit:
                with suppress(UnusableError):
                    self._run(["cache", "clean", "--quiet", *what], Path.cwd())

    def _choices(self, wants: Wants) -> list[str]:
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
            done = kept.run(command, cwd=cwd, env=self._env, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            raise UnusableError(f"its installation did not end within {_SECONDS} s") from None
        if done.returncode != 0:
            text = done.stderr or done.stdout
            _refuse_to_blame_the_build(text, cwd)
            raise UnusableError(_told(text))


def variables_of_uv(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that uv gets: `env` without the user's own environment, with pip's index where uv has none."""
    variables = {name: value for name, value in env.items() if name not in _FOREIGN}
    if env.get("PIP_INDEX_URL") and not (env.get("UV_DEFAULT_INDEX") or env.get("UV_INDEX_URL")):
        variables["UV_DEFAULT_INDEX"] = env["PIP_INDEX_URL"]  # builds are listed there, so what they need is there
    return variables


def interpreter_in(place: Path) -> Path:
    """The interpreter of the environment at `place`."""
    windows = place / "Scripts" / "python.exe"
    return windows if windows.exists() else place / "bin" / "python"


def activated(place: Path, env: Mapping[str, str]) -> dict[str, str]:
    """Variables that a process needs to be in the environment at `place`, as its activation would set them."""
    bin_directory = str(interpreter_in(place).parent)
    return {"VIRTUAL_ENV": str(place), "PATH": os.pathsep.join([bin_directory, env.get("PATH", os.defpath)])}


def _overrides(requirements: Sequence[str], file: Path) -> list[str]:
    """The options that make `requirements` count against what packages ask for."""
    if not requirements:
        return []
    file.write_text("".join(f"{requirement}\n" for requirement in requirements), encoding="utf-8")
    return ["--override", str(file)]


def _size(directory: Path) -> int:
    """Bytes below `directory`; a file that is there under several names counts once."""
    sizes: dict[int, int] = {}
    for at, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                status = Path(at, name).lstat()
                sizes[status.st_ino] = status.st_size
    return sum(sizes.values())


def _written(package: str, wants: Wants) -> str:
    """How a wanted package is asked for: one without a version may be a pre-release where those are looked for."""
    return f"{package}>=0.dev0" if wants.prereleases and _BARE.fullmatch(package) else package


def _refuse_to_blame_the_build(text: str, place: Path) -> None:
    """Raise ReproKitError for what would befall any build: no network, no space."""
    if _NO_SPACE.search(text):
        raise StageError(
            f"The disk is full at {place}; free some space (or lower --cache-size) and run it again to go on."
        )
    if _NO_NETWORK.search(text):
        raise StageError(f"The network does not answer ({_told(text)}); run it again to go on, or with --offline.")


def _told(text: str) -> str:
    """Uv's complaint, on one line."""
    lines = [line.strip(" ×╰─▶│├") for line in text.splitlines()]
    told = [line for line in lines if line and not line.startswith(("warning:", "hint:"))]
    causes = [line.removeprefix("cause:").strip() for line in told if line.startswith("cause:")]
    return (causes[-1] if causes else " ".join(told))[:400] or "uv failed without a word"


def _program() -> str:
    try:
        from uv import find_uv_bin

        return os.fsdecode(find_uv_bin())
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
    if found is None:
        raise StageError("uv is not installed; `pip install uv` (environments are made with it).")
    return found
