"""Find the Pythons of this machine: those on PATH, and those that pyenv and uv keep elsewhere."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path


def find_version(version: str) -> str | None:
    """The first interpreter of `version` ("3.9") that runs; None where there is none."""
    return next((python for python in _candidates(version) if _runs(python, version)), None)


def _candidates(version: str) -> Iterator[str]:
    name = f"python{version}"
    for directory in os.get_exec_path():
        yield str(Path(directory, name))
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or Path.home() / ".local" / "share" / "uv" / "python")
    for kept in (*pyenv.glob(f"{version}*/bin/{name}"), *uv.glob(f"cpython-{version}*/bin/{name}")):
        yield str(kept)


def _runs(python: str, version: str) -> bool:
    """Whether `python` is there, and of that version. A shim of pyenv may run nothing."""
    if not os.access(python, os.X_OK):
        return False
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-Ic", ask], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == version
