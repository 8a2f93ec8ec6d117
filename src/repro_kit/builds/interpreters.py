"""Find the interpreter that a user means, and read what is installed in it from its files."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from repro_kit.errors import UsageError
from repro_kit.runner.ask import NoAnswer, Probe, Question


def default_python(env: Mapping[str, str]) -> str:
    """The interpreter of the active virtual or conda environment; else ours if it has torch; else the first on PATH."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        environment = env.get(variable)
        interpreter = _in_environment(Path(environment)) if environment else None
        if interpreter:
            return interpreter
    if importlib.util.find_spec("torch") is not None:  # finds torch without importing it
        return sys.executable
    return (
        shutil.which("python3", path=env.get("PATH")) or shutil.which("python", path=env.get("PATH")) or sys.executable
    )


def find_python(given: str | None, cwd: Path, env: Mapping[str, str], guess: str | None = None) -> str:
    """The interpreter that `given` means: a path, a name on PATH, or the directory of an environment.

    None means `guess`, or else the default. Raises UsageError when there is no such interpreter.
    """
    if given is None:
        return guess or default_python(env)
    path = cwd / Path(given).expanduser()
    interpreter = _in_environment(path) if path.is_dir() else executable(str(Path(given).expanduser()), cwd, env)
    if interpreter is None:
        wrong = "is not executable" if path.is_file() else "does not exist" if not path.exists() else "has no python"
        raise UsageError(f"--python {given} {wrong}; give the path of an interpreter that has torch.")
    return interpreter


def _in_environment(directory: Path) -> str | None:
    for name in ("bin/python", "bin/python3", "python.exe", "Scripts/python.exe"):
        if os.access(directory / name, os.X_OK):
            return str(directory / name)
    return None


def executable(name: str, cwd: Path, env: Mapping[str, str]) -> str | None:
    """The path of command `name`; None when there is none."""
    if os.sep in name:
        path = cwd / name
        return str(path) if path.is_file() and os.access(path, os.X_OK) else None
    return shutil.which(name, path=env.get("PATH"))


def interpreter_behind(program: str, env: Mapping[str, str]) -> str | None:
    """The interpreter that runs `program`: itself, or the one in its ``#!`` line; None when unknown."""
    if Path(program).name.startswith("python"):
        return program
    with Path(program).open("rb") as file:
        first = file.readline(500)
    if first[:2] != b"#!" or b"python" not in first:
        return None
    words = first[2:].decode(errors="replace").split()
    if Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-")]
    return shutil.which(words[0], path=env.get("PATH")) if words else None


_QUESTION = Question(
    seconds=120,
    code=r"""
import importlib.metadata, importlib.util, json, pathlib, re, sys
name = json.load(sys.stdin)
told = {"version": None, "commit": None, "origin": None, "urls": []}
try:
    found = importlib.metadata.distribution(name)
    told["version"] = found.version
    told["urls"] = [it.partition(",")[2].strip() for it in found.metadata.get_all("Project-URL") or []]
    told["urls"].append(found.metadata.get("Home-page") or "")
    direct = found.read_text("direct_url.json")
    if direct:
        told["commit"] = json.loads(direct).get("vcs_info", {}).get("commit_id")
    tops = (found.read_text("top_level.txt") or "").split() or [name.replace("-", "_")]
except importlib.metadata.PackageNotFoundError:
    tops = [name.replace("-", "_")]
for top in tops:
    spec = importlib.util.find_spec(top)
    if spec is None or not spec.origin:
        continue
    told["origin"] = told["origin"] or spec.origin
    for file in ("version.py", "_version.py", "__init__.py"):
        path = pathlib.Path(spec.origin).with_name(file)
        text = path.read_text(errors="replace")[:20000] if path.is_file() else ""
        match = re.search(r"(?:git_version|git_commit|commit_id)(?:__)?\b[^=\n]*=\s*['\"]g?([0-9a-f]{7,40})['\"]", text)
        if match:
            told["commit"] = told["commit"] or match.group(1)
print("\n" + json.dumps(told))
""",
)


@dataclass(frozen=True)
class _Told:
    """The answer. `commit`: of the wheel's origin, or named in its files; `urls`: of its project."""

    version: str | None
    commit: str | None
    origin: str | None
    urls: tuple[str, ...]


def github_url(url: str) -> str | None:
    """``https://github.com/owner/name`` for a git remote or a project's URL; None for another host."""
    remote = re.match(r"^(?:git@|ssh://git@)github\.com[:/](?P<path>[^/]+/[^/]+?)(?:\.git)?/?$", url)
    if remote:
        return f"https://github.com/{remote['path']}"
    parts = urlsplit(url)
    path = [part for part in parts.path.removesuffix(".git").split("/") if part]
    if (parts.hostname or "") not in ("github.com", "www.github.com") or len(path) != 2:
        return None
    return f"https://github.com/{path[0]}/{path[1]}"


@dataclass(frozen=True)
class Installed:
    """A package, as an interpreter would import it."""

    version: str | None = None
    commit: str | None = None
    origin: str | None = None  # the file that an import would load
    repository: str | None = None  # URL on GitHub


def installed(python: str, package: str, env: Mapping[str, str]) -> Installed | None:
    """The `package` of the interpreter `python`; None when the interpreter does not answer."""
    try:
        told = Probe(python, Path(python).parent, env).ask(_QUESTION, _Told, package)
    except NoAnswer:
        return None
    repository = next(filter(None, map(github_url, told.urls)), None)
    return Installed(told.version, told.commit, told.origin, repository)
