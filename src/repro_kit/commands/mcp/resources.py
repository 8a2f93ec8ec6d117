"""Bundles as resources: those in the current directory, each with its files for people."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, unquote

from repro_kit.bundle.archive import archive
from repro_kit.bundle.archive.manifest import MANIFEST
from repro_kit.errors import UsageError
from repro_kit.plain_file import read_plain
from repro_kit.session.strangers.runnable import REPRO

SCHEME = "repro-kit://bundle/"
TEMPLATE = f"{SCHEME}{{name}}"
_FILES = {
    MANIFEST: "application/json",
    "story.json": "application/json",
    "issue.md": "text/markdown",
    REPRO: "text/x-python",
}


def bundles(directory: Path) -> list[str]:
    """The names of the bundles in `directory`: archives, and cases whose bundle has no archive there."""
    return [path.name for path in sorted(directory.iterdir()) if _is_bundle(path)]


def _is_bundle(path: Path) -> bool:
    if (path / "bundle" / MANIFEST).is_file():
        return not any(path.with_name(path.name + form).is_file() for form in archive.FORMS)
    return path.is_file() and path.name.endswith(archive.FORMS)


def uri_of(name: str) -> str:
    """The URI of a bundle."""
    return f"{SCHEME}{quote(name, safe='')}"


def contents(uri: str, directory: Path) -> list[tuple[str, str, str]]:
    """The files of a bundle: URI, media type, text. Raises ReproKitError where there is no such bundle."""
    name = unquote(uri.removeprefix(SCHEME))
    if not uri.startswith(SCHEME) or name not in bundles(directory):
        raise UsageError(f"{uri} is not a bundle in {directory}; there are {', '.join(bundles(directory)) or 'none'}.")
    path = directory / name
    if path.is_dir():
        there = [file for file in _FILES if (path / "bundle" / file).is_file()]
        data = {file: read_plain(path / "bundle" / file, archive.LARGEST_SHOWN) for file in there}
    else:
        data = archive.read(path, lambda member: member in _FILES)
    return [
        (f"{uri_of(name)}#{file}", _FILES[file], data[file].decode("utf-8", "replace"))
        for file in _FILES
        if file in data
    ]
