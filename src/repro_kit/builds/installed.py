"""What is installed in an environment: read off its files, nothing is imported."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_ASK = r"""
import importlib.metadata, importlib.util, json, pathlib, re, sys
name = sys.argv[1]
told = {"version": None, "commit": None, "origin": None}
try:
    found = importlib.metadata.distribution(name)
    told["version"] = found.version
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
"""


@dataclass(frozen=True)
class Installed:
    """A package as an interpreter finds it."""

    version: str | None = None
    commit: str | None = None
    origin: str | None = None  # the file that an import would load


def installed(python: str, package: str, env: Mapping[str, str]) -> Installed | None:
    """What `python` has of `package`; None when it does not answer."""
    try:
        answer = subprocess.run(
            [python, "-c", _ASK, package],
            cwd=Path(python).parent,
            env=dict(env),
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        return Installed(**json.loads(answer.stdout.rsplit("\n", 2)[-2]))
    except (OSError, subprocess.SubprocessError, ValueError, IndexError, TypeError):
        return None
