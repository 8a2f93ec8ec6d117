"""Nightly wheels: one index per platform lists the last two months or so; older wheels are found by guessing URLs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from urllib.parse import quote, unquote

from repro_kit.bisect.build import Build
from repro_kit.builds.wheels.web import WebError, opened
from repro_kit.builds.wheels.wheel_files import day_of
from repro_kit.errors import StageError, UsageError

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
