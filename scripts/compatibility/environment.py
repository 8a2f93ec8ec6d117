"""Environments with one build of torch each. An environment that exists is used again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from compatibility.pythons import find_version
from repro_kit.builds.build_source import target_of
from repro_kit.builds.install import ExtraPackages, Uv, interpreter_in
from repro_kit.builds.interpreters import installed
from repro_kit.builds.wheel_index import PYPI, builds_of, index_files
from repro_kit.errors import UsageError

ROOT = Path(__file__).parents[2]
PRE = "pre"  # stands for the newest pre-release of the index
_OWN_PYTHON = (3, 11)  # repro-kit's own tests need it
_DESCRIBE = "import json, sys, torch; print(json.dumps([torch.__version__, sys.version.split()[0]]))"


@dataclass(frozen=True)
class Wanted:
    """A version of torch, and the Python for it, a version or a path; without one, that of repro-kit."""

    version: str
    python: str = ""

    @classmethod
    def parse(cls, text: str) -> Wanted:
        """Read ``VERSION[@PYTHON]``."""
        version, _, python = text.partition("@")
        return cls(version, python)


@dataclass(frozen=True)
class Environment:
    """An interpreter with torch. `tests`: it can run repro-kit's own tests."""

    interpreter: str
    torch: str  # version, with the local part: "2.5.1+cu124"
    python: str  # version
    tests: bool


def newest_prerelease(index: str | None) -> str | None:
    """The newest pre-release of torch that the index has for this Python, if any."""
    builds = builds_of("torch", index_files(index or PYPI, "torch"), target_of(sys.executable))
    versions = [Version(build.version) for build in builds if build.version and Version(build.version).is_prerelease]
    return str(max(versions)) if versions else None


def environment_for(wanted: Wanted, directory: Path, index: str | None) -> Environment:
    """Make the environment below `directory`, unless it exists.

    Raises UsageError when there is no such Python, and UnusableError when the installation fails.
    """
    base = _base(wanted.python)
    target = target_of(base)
    tests = target.version[:2] >= _OWN_PYTHON
    named = f"-python{'.'.join(map(str, target.version[:2]))}" if wanted.python else ""
    home = (directory / "envs" / f"{wanted.version}{named}").resolve()  # may be a link to an environment of your own
    python = str(interpreter_in(home))
    present = installed(python, "torch", os.environ) if home.is_dir() else None
    uv = Uv(directory / "uv-cache")
    if present is None or (present.version or "").partition("+")[0] != wanted.version:
        python = uv.make(home, target)
        uv.install(
            python, f"torch=={wanted.version}", ExtraPackages(packages=("numpy", "setuptools"), index=index), home
        )
    if tests and not _has_repro_kit(python):
        uv.install(python, None, ExtraPackages(packages=_needed_by_tests()), home)
    answer = subprocess.run([python, "-c", _DESCRIBE], capture_output=True, text=True, check=True)
    torch, version = json.loads(answer.stdout)
    return Environment(python, torch, version, tests)


def _base(python: str) -> str:
    """The interpreter that `python` means: a path, a version, or "" for that of repro-kit."""
    if not python:
        return sys.executable
    base = shutil.which(python) if "/" in python else find_version(python)
    if base is None:
        raise UsageError(f"there is no Python {python} that runs; give VERSION@PATH, with the path of an interpreter")
    return base


def _has_repro_kit(python: str) -> bool:
    present = installed(python, "repro-kit", os.environ)
    return present is not None and present.version is not None


def _needed_by_tests() -> tuple[str, ...]:
    """This checkout, for what only an installation has (.pth file, pytest plugin), and the group of the tests."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return (f"repro-kit @ {ROOT.as_uri()}", *project["dependency-groups"]["test"])
