"""`farm import`: the results of tests that somebody else runs on builds, as JUnit's XML has them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

from repro_kit.commands.farm.export import fresh_units
from repro_kit.commands.farm.place import FarmPlace
from repro_kit.commands.farm.told import Before, judged, tell, words_of
from repro_kit.errors import Exit, UsageError
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, Signature
from repro_kit.files import read_plain
from repro_kit.regressions.build import Build
from repro_kit.regressions.groups import CaseFacts
from repro_kit.regressions.metrics import MOST_METRICS
from repro_kit.regressions.release import twin_line
from repro_kit.regressions.store import IMPORTED, FarmCase, FarmStore
from repro_kit.regressions.unit import UnitResult, now
from repro_kit.ui import Ui
from repro_kit.visible import one_line

_LARGEST = 256 << 20  # bytes of a file
_LONGEST = 300  # characters of a note
_NOT_ITS_OWN = ("failed on setup", "failed on teardown", "collection failure")  # what pytest says of fixtures, imports
_TIME_OUT = re.compile(r"\btime(?:d)?[ -]?out\b", re.IGNORECASE)
_DAY = re.compile(r"\.dev(\d{4})(\d{2})(\d{2})")


@dataclass(frozen=True)
class ImportRequest:
    """The files of results, and of which build they are."""

    files: tuple[Path, ...]
    build: str
    line: str = "tests"
    twins: tuple[Path, ...] = ()  # results of the same tests on the stable build, on the same day
    stable: str = ""  # that build
    notify: str = ""


@dataclass(frozen=True)
class _Test:
    """What one file says of one test."""

    name: str
    result: UnitResult


def import_results_of(place: FarmPlace, request: ImportRequest, ui: Ui) -> Exit:
    """Take up the results, and judge the cases. Twice is once. Raises UsageError for a file that is none."""
    if request.notify:
        words_of(request.notify)
    tests = [test for file in request.files for test in _tests(file)]
    twins = [test for file in request.twins for test in _tests(file)]
    if not tests:
        raise UsageError(f"{', '.join(map(str, request.files))}: there is no test in it.")
    with place.writing(create=True) as store:
        before = Before.of(place, store)
        with store.writing():
            _add_cases(store, [*tests, *twins])
            _add_build(store, request)
            count = _record(store, request.line, request.build, tests)
            _record(store, twin_line(request.line), request.build, twins)
        news = judged(place, store, before, count)
    return tell(news, ui, request.notify)


def _add_cases(store: FarmStore, tests: Sequence[_Test]) -> None:
    known = {case.id for case in store.cases()}
    names = {case.name for case in store.cases()}
    at = now()
    for name in dict.fromkeys(test.name for test in tests):
        id = _identity(name)
        if id not in known:
            shown = name if name not in names else f"{name} ({id[:8]})"
            facts = CaseFacts(title=f"any failure of the test {name}")
            store.add(FarmCase(id, shown, f"{IMPORTED}tests", at, facts, since=at))


def _add_build(store: FarmStore, request: ImportRequest) -> None:
    """Add the build behind those that are known; versions decide their order."""
    day = _DAY.search(request.build)
    date = "-".join(day.groups()) if day else None
    names = store.builds_of(request.line)
    builds = [Build(name, version, of) for name, version, of in names if name != request.build]
    builds.append(Build(request.build, request.build, date))
    store.list_builds(request.line, "", builds)
    if request.twins:
        stable = [replace(build, version=request.stable or build.version) for build in builds]
        store.list_builds(twin_line(request.line), "", stable, tracked=False)


def _record(store: FarmStore, line: str, build: str, tests: Sequence[_Test]) -> int:
    """Record what is not known yet; how many results that are."""
    count = 0
    for test in tests:
        unit = replace(test.result, build=build, line=line, case=_identity(test.name))
        fresh = list(fresh_units([unit], list(store.units(unit.case))))
        store.record(fresh)
        count += len(fresh)
    return count


def _identity(name: str) -> str:
    return hashlib.sha256(f"test\0{name}".encode()).hexdigest()


def _tests(file: Path) -> Iterator[_Test]:
    """The tests of a file. Raises UsageError."""
    try:
        text = read_plain(file, _LARGEST)
        changed = datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat(timespec="seconds")
    except OSError as error:
        raise UsageError(f"Cannot read {file}: {error.strerror}.") from error
    if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
        raise UsageError(f"{file} is not JUnit's XML: it declares entities.")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise UsageError(f"{file} is not JUnit's XML: {error}.") from error
    if root.tag not in ("testsuites", "testsuite"):
        raise UsageError(f"{file} is not JUnit's XML: it begins with <{root.tag[:40]}>.")
    for suite in root.iter("testsuite"):
        for case in suite.findall("testcase"):
            name = "::".join(filter(None, (case.get("classname"), case.get("name"))))
            if name:
                yield _Test(
                    one_line(name)[:_LONGEST], replace(_result(case), at=_time(suite.get("timestamp"), changed))
                )


def _time(said: str | None, otherwise: str) -> str:
    """When a suite began, ISO 8601, UTC."""
    try:
        at = datetime.fromisoformat(said or "")
    except ValueError:
        return otherwise
    return at.replace(tzinfo=at.tzinfo or UTC).astimezone(UTC).isoformat(timespec="seconds")


def _result(case: ElementTree.Element) -> UnitResult:
    """What one element says."""
    return replace(_verdict(case), seconds=_number(case.get("time")) or 0.0, metrics=_metrics(case))


def _verdict(case: ElementTree.Element) -> UnitResult:
    """The outcome of a test. One that is known to fail (xfail) fails; one that passes against that passes."""
    again = [each for each in case if each.tag in ("rerunFailure", "flakyFailure", "rerun", "flakyError", "rerunError")]
    bad = next((each for each in case if each.tag in ("failure", "error")), None)
    skipped = case.find("skipped")
    if skipped is not None and skipped.get("type") != "pytest.xfail":
        return UnitResult("", RunOutcome.CANNOT_TELL, note=f"it was skipped: {_said(skipped)}".removesuffix(": "))
    if bad is not None and _said(bad).startswith(_NOT_ITS_OWN):
        return UnitResult("", RunOutcome.CANNOT_TELL, note=_said(bad))
    if bad is not None and "XPASS(strict)" not in _said(bad):
        failure = Signature(Kind.TIMEOUT) if _TIME_OUT.search(_said(bad)) else None
        return UnitResult("", RunOutcome.FAILS_ALIKE, 1 + len(again), note=_said(bad), failure=failure)
    if skipped is not None:
        return UnitResult("", RunOutcome.FAILS_ALIKE, 1, note=f"it is known to fail: {_said(skipped)}")
    if again:
        return UnitResult("", RunOutcome.FAILS_ALIKE, len(again), 1, note=_said(again[0]))
    return UnitResult("", RunOutcome.PASSES, 0, 1)


def _said(element: ElementTree.Element) -> str:
    """What is said of a failure, in one line."""
    text = element.get("message") or (element.text or "").strip().rpartition("\n")[2]
    return one_line(text)[:_LONGEST]


def _metrics(case: ElementTree.Element) -> tuple[tuple[str, float], ...]:
    """The properties of a test that are numbers."""
    found = []
    for each in case.findall("properties/property"):
        value = _number(each.get("value"))
        if value is not None and each.get("name"):
            found.append((one_line(each.get("name", ""))[:60], value))
    return tuple(found[:MOST_METRICS])


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None
