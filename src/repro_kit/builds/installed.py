"""Read what is installed in an environment from its files; the package is not imported."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from repro_kit.runner.ask import NoAnswer, Probe, Question

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
