"""A package index (PEP 503 as HTML, PEP 691 as JSON), over http(s) or as files."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from mousebender import simple

from repro_kit.builds.wheels.web import WebError, opened, persistently, without_credentials
from repro_kit.builds.wheels.wheel_files import WheelFile
from repro_kit.errors import Exit, ReproKitError, UsageError

PYPI = "https://pypi.org/simple"


def index_files(index: str, package: str) -> list[WheelFile]:
    """The files of `package` in the index at URL `index`. Raises ReproKitError when the index cannot be read."""
    if not _is_url(index):
        raise UsageError(f"{without_credentials(index)} is not a URL of a package index; give http, https or file.")
    page = simple.create_project_url(index, package)
    try:
        url, kind, text = persistently(lambda: _read(page))
    except WebError as error:
        hint = "check --index-url and --package" if error.lasting else "check the network"
        code = Exit.USAGE if error.lasting else Exit.FAILED
        raise ReproKitError(f"Cannot list {package}: {error}; {hint}.", code) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", simple.APIVersionWarning)  # newer minor versions only add fields
            details = simple.parse_project_details(text, kind, package)
    except (simple.UnsupportedAPIVersion, simple.UnsupportedMIMEType, ValueError, KeyError, TypeError) as error:
        shown = without_credentials(page)
        raise UsageError(f"{shown} is not a page of a package index ({error}); check --index-url.") from error
    return [_file(url, file) for file in details["files"]]


def _is_url(word: str) -> bool:
    try:
        parts = urlsplit(word)
        return parts.scheme == "file" or (parts.scheme in ("http", "https") and bool(parts.hostname))
    except ValueError:
        return False


def _read(page: str) -> tuple[str, str, str]:
    """URL, content type and text of a project's page."""
    if urlsplit(page).scheme == "file":
        page = _in_directory(page)
    with opened(page, accept=simple.ACCEPT_SUPPORTED) as answer:
        kind = answer.headers.get_content_type()
        data: bytes = answer.read()
        url = answer.geturl()
    text = data.decode("utf-8", "replace")
    if kind == "application/json" or (kind != simple.ACCEPT_JSON_V1 and _is_json(text)):
        kind = simple.ACCEPT_JSON_V1
    elif "html" not in kind and kind != simple.ACCEPT_JSON_V1:
        kind = "text/html"
    return url, kind, text


def _in_directory(page: str) -> str:
    """The URL of the file for a page, in an index made of files."""
    directory = Path(unquote(urlsplit(page).path))
    file = next((path for name in ("index.html", "index.json") if (path := directory / name).is_file()), None)
    return file.as_uri() if file else page


def _is_json(text: str) -> bool:
    if not text.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _file(page: str, file: Any) -> WheelFile:
    yanked = file.get("yanked", False)
    uploaded = file.get("upload-time")
    return WheelFile(
        filename=file["filename"],
        url=urljoin(page, file["url"]),
        sha256=file.get("hashes", {}).get("sha256"),
        uploaded=uploaded[:10] if uploaded else None,
        yanked=yanked if isinstance(yanked, str) else ("withdrawn" if yanked else ""),
        requires_python=file.get("requires-python"),
    )
