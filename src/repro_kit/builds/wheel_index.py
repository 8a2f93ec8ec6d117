"""The wheels that an index, the nightlies or a directory offer, and which of them are builds for an interpreter."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

from mousebender import simple
from packaging.utils import BuildTag, InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from repro_kit.builds.build_source import Target
from repro_kit.builds.web import WebError, opened, persistently, without_credentials
from repro_kit.errors import Exit, ReproKitError, StageError, UsageError
from repro_kit.regressions.build import Build

_DAY = re.compile(r"(20\d\d)(\d\d)(\d\d)")


@dataclass(frozen=True)
class WheelFile:
    """One file that an index or a directory offers."""

    filename: str
    url: str
    sha256: str | None = None
    uploaded: str | None = None  # ISO 8601, the day
    yanked: str = ""
    requires_python: str | None = None


@dataclass(frozen=True)
class _Fitting:
    version: Version
    order: tuple[int, BuildTag]  # the best file of a version has the lowest rank, then the highest build number
    file: WheelFile


def builds_of(package: str, files: Iterable[WheelFile], target: Target) -> list[Build]:
    """The builds of `package` that `target` can install, oldest first, one per version."""
    best: dict[Version, _Fitting] = {}
    for file in files:
        fitting = _fitting(package, file, target)
        if fitting is None:
            continue
        best_file = best.get(fitting.version)
        if best_file is None or _better(fitting, best_file):
            best[fitting.version] = fitting
    builds = [_build(fitting) for fitting in best.values()]
    return in_order(builds)


def in_order(builds: Sequence[Build]) -> list[Build]:
    """Oldest first: by day if every version has a day (nightlies), else by version."""
    keyed = [(day_of(build.version or "") or "", Version(build.version or "0"), build) for build in builds]
    daily = all(day for day, _, _ in keyed)
    keyed.sort(key=lambda entry: (entry[0] if daily else "", entry[1]))
    return [build for _, _, build in keyed]


def is_fitting(build: Build, *, pre: bool, named: Sequence[str | None], oldest: str | None = None) -> bool:
    """Whether to try `build`: it is named as an end, or is not withdrawn, not too old, and no unwanted pre-release."""
    if build.name in named or build.version in named:
        return True
    if build.yanked:
        return False
    version = Version(build.version or "0")
    if oldest and version < Version(oldest):
        return False
    return pre or not version.is_prerelease


def directory_files(directory: Path) -> list[WheelFile]:
    """The wheels below `directory`. Raises UsageError when there is no such directory."""
    if not directory.is_dir():
        raise UsageError(f"{directory} is not a directory; --wheels takes one that holds wheels.")
    paths = sorted(directory.absolute().rglob("*.whl"))
    return [WheelFile(path.name, path.as_uri()) for path in paths]


def day_of(version: str) -> str | None:
    """The day in a nightly's version, in ISO 8601: 2023-11-16 for ``2.2.0.dev20231116+cpu``; None without one."""
    day = _DAY.search(version)
    if day is None:
        return None
    try:
        return date(*map(int, day.groups())).isoformat()
    except ValueError:
        return None


def _fitting(package: str, file: WheelFile, target: Target) -> _Fitting | None:
    try:
        name, version, number, tags = parse_wheel_filename(file.filename)
    except (InvalidWheelFilename, ValueError):
        return None  # a source distribution, or another kind of file
    ranks = [target.tags[tag] for tag in tags if tag in target.tags]
    if name != canonicalize_name(package) or not ranks or not target.allows(file.requires_python):
        return None
    return _Fitting(version, (min(ranks), number), file)


def _better(first: _Fitting, second: _Fitting) -> bool:
    if bool(first.file.yanked) != bool(second.file.yanked):
        return not first.file.yanked
    (rank, number), (other_rank, other_number) = first.order, second.order
    return rank < other_rank or (rank == other_rank and number > other_number)


def _build(fitting: _Fitting) -> Build:
    file, version = fitting.file, str(fitting.version)
    return Build(
        name=version,
        version=version,
        date=day_of(version) or file.uploaded,
        url=file.url,
        sha256=file.sha256,
        yanked=file.yanked,
    )


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


NIGHTLY = "https://download.pytorch.org/whl/nightly"

_PLATFORM = re.compile(r"cpu|cpu-cxx11-abi|cu\d{2,3}|rocm\d+(\.\d+)*|xpu")
_VERSION = re.compile(r"(?P<major>\d+)\.(?P<minor>\d+)\.(?P<patch>\d+)\.dev\d{8}")
_LINUX = re.compile(r"(linux|manylinux\w+)_(?P<machine>x86_64|aarch64)\.whl$")
_MONTHS_A_MINOR = 2  # months: the least time between two minor versions
_PARALLEL = 16
_MOST_DAYS = 800


def nightly_index(platform: str) -> str:
    """The URL of the index of nightlies for `platform`. Raises UsageError for an unknown platform."""
    if not _PLATFORM.fullmatch(platform):
        raise UsageError(f"{platform} is not a platform of nightlies; give one like cpu, cu126, rocm6.4, xpu.")
    return f"{NIGHTLY}/{platform}"


def platform_of(version: str | None) -> str:
    """The platform of an installed version: ``cu126`` for ``2.13.0+cu126``; ``cpu`` without one."""
    local = (version or "").partition("+")[2]
    return local if _PLATFORM.fullmatch(local) else "cpu"


def older(listed: Sequence[Build], since: str, exists: Callable[[str], bool] | None = None) -> list[Build]:
    """Builds from day `since` on that are no longer listed but still exist, found by requests for their likely URLs."""
    oldest = next((build for build in listed if build.url and day_of(build.version or "")), None)
    if oldest is None or oldest.url is None or oldest.date is None or since >= oldest.date:
        return []
    days = _days(since, oldest.date)
    template, first = oldest.url, date.fromisoformat(oldest.date)
    ask = exists or _exists

    def find(day: date) -> Build | None:
        url = next((guess for guess in _guesses(template, day, first) if ask(guess)), None)
        return _of_url(url) if url else None

    with ThreadPoolExecutor(_PARALLEL) as pool:
        return [build for build in pool.map(find, days) if build is not None]


def _days(since: str, until: str) -> list[date]:
    start, end = date.fromisoformat(since), date.fromisoformat(until)
    if (end - start).days > _MOST_DAYS:
        raise UsageError(f"{since} is more than {_MOST_DAYS} days before the oldest listed build ({until}).")
    return [start + timedelta(days=at) for at in range((end - start).days)]


def _guesses(template: str, day: date, first: date) -> Iterator[str]:
    """Likely URLs of that day's wheel: the minor version was lower then, and the platform tag may have differed."""
    head, _, filename = template.rpartition("/")
    name = unquote(filename)
    match = _VERSION.search(name)
    if match is None:
        return
    back = ((first - day).days // 30) // _MONTHS_A_MINOR + 1
    for minor in range(int(match["minor"]), max(int(match["minor"]) - back, 0) - 1, -1):
        version = f"{match['major']}.{minor}.{match['patch']}.dev{day:%Y%m%d}"
        dated = name[: match.start()] + version + name[match.end() :]
        for variant in dict.fromkeys((dated, _LINUX.sub(r"linux_\g<machine>.whl", dated))):
            yield f"{head}/{quote(variant)}"


def _of_url(url: str) -> Build:
    version = unquote(url.rpartition("/")[2]).split("-")[1]
    return Build(name=version, version=version, date=day_of(version), url=url)


def _exists(url: str) -> bool:
    try:
        with opened(url, method="HEAD"):
            return True
    except WebError as error:
        if error.missing:
            return False
        raise StageError(f"Cannot look for older builds: {error}; check the network.") from error
