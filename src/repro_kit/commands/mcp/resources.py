"""Bundles as resources: those in the current directory, each with its files for people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote, unquote

from repro_kit.bundle.archive import archive
from repro_kit.bundle.archive.manifest import MANIFEST
from repro_kit.commands.mcp.consent import inside
from repro_kit.errors import UsageError
from repro_kit.files import read_plain
from repro_kit.repro_run.untrusted import REPRO

SCHEME = "repro-kit://bundle/"
TEMPLATE = f"{SCHEME}{{name}}"
_FILES = {
    MANIFEST: "application/json",
    "story.json": "application/json",
    "issue.md": "text/markdown",
    REPRO: "text/x-python",
}


def bundles(directory: Path, roots: Sequence[Path]) -> list[str]:
    """The names of the bundles in `directory`: archives, and cases whose bundle has no archive there.

    None if `directory` lies outside of `roots`; a link that leads out of them is no bundle.
    """
    if not _is_inside(directory, roots):
        return []
    return [path.name for path in sorted(directory.iterdir()) if _is_bundle(path, roots)]


def _is_inside(path: Path, roots: Sequence[Path]) -> bool:
    try:
        return bool(inside(path, roots))
    except UsageError:
        return False


def _is_bundle(path: Path, roots: Sequence[Path]) -> bool:
    manifest = path / "bundle" / MANIFEST
    if manifest.is_file():
        packed = any(path.with_name(path.name + form).is_file() for form in archive.FORMS)
        return not packed and _is_inside(manifest, roots)
    return path.is_file() and path.name.endswith(archive.FORMS) and _is_inside(path, roots)


def uri_of(name: str) -> str:
    """The URI of a bundle."""
    return f"{SCHEME}{quote(name, safe='')}"


def contents(uri: str, directory: Path, roots: Sequence[Path]) -> list[tuple[str, str, str]]:
    """The files of a bundle: URI, media type, text. Raises ReproKitError if the bundle does not exist."""
    name = unquote(uri.removeprefix(SCHEME))
    names = bundles(directory, roots)
    if not uri.startswith(SCHEME) or name not in names:
        raise UsageError(f"{uri} is not a bundle in {directory}; there are {', '.join(names) or 'none'}.")
    path = directory / name
    if path.is_dir():
        there = [file for file in _FILES if (path / "bundle" / file).is_file()]
        for file in there:
            inside(path / "bundle" / file, roots)
        data = {file: read_plain(path / "bundle" / file, archive.LARGEST_SHOWN) for file in there}
    else:
        data = archive.read(path, lambda member: member in _FILES)
    return [
        (f"{uri_of(name)}#{file}", _FILES[file], data[file].decode("utf-8", "replace"))
        for file in _FILES
        if file in data
    ]
