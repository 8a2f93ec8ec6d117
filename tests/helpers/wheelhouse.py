"""Small real wheels of a package with a planted regression, in a directory or an index made of files."""

from __future__ import annotations

import base64
import hashlib
import json
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

GOOD = "def answer():\n    return 42\n"
BAD = "def answer():\n    raise RuntimeError('planted: the answer is wrong')\n"
OTHER = "def answer():\n    raise KeyError('another failure altogether')\n"

#: Uses the package as a user's script would.
SCRIPT = "import frob\nassert frob.answer() == 42\n"


def make_wheel(directory: Path, version: str, code: str, *, name: str = "frob", requires: Sequence[str] = ()) -> Path:
    """A wheel of package `name` whose module is `code`."""
    directory.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(
        f"Requires-Dist: {require}\n" for require in requires
    )
    files = {
        f"{name}/__init__.py": code,
        f"{name}/version.py": f"git_version = '{commit_of(version)}'\n",
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = [f"{path},sha256={_digest(text)},{len(text.encode())}" for path, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""])
    path = directory / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return path


def commit_of(version: str) -> str:
    """The commit that the wheel says it was made from."""
    return hashlib.sha1(version.encode()).hexdigest()


def make_wheels(directory: Path, versions: Sequence[str], code: Callable[[int], str]) -> list[Path]:
    """One wheel a version; `code` tells the module of the n-th one, "" that the file is no wheel at all."""
    paths = []
    for number, version in enumerate(versions):
        path = make_wheel(directory, version, code(number) or GOOD)
        if not code(number):
            path.write_bytes(b"this is no wheel")
        paths.append(path)
    return paths


def html_index(root: Path, wheels: Sequence[Path], *, name: str = "frob", yanked: Sequence[str] = ()) -> str:
    """A PEP 503 index at `root`; its URL."""
    lines = []
    for path in wheels:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        mark = ' data-yanked="broken"' if any(f"-{version}-" in path.name for version in yanked) else ""
        lines.append(f'<a href="../../files/{quote(path.name)}#sha256={digest}"{mark}>{path.name}</a><br/>')
    page = root / "simple" / name / "index.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("<!DOCTYPE html><html><body>" + "\n".join(lines) + "</body></html>", encoding="utf-8")
    return (root / "simple").as_uri()


def json_page(wheels: Sequence[Path], *, name: str = "frob") -> bytes:
    """The PEP 691 page of `name`, with upload times (PEP 700)."""
    files = [
        {
            "filename": path.name,
            "url": f"/files/{quote(path.name)}",
            "hashes": {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()},
            "size": path.stat().st_size,
            "upload-time": f"2026-01-{number + 1:02}T08:00:00Z",
        }
        for number, path in enumerate(wheels)
    ]
    return json.dumps({"meta": {"api-version": "1.1"}, "name": name, "versions": [], "files": files}).encode()


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
