"""The site of a farm of 1,000 cases in a real browser: it is filtered, and loads nothing else. Skipped without one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import farm as bench
from chromium import chromium
from repro_kit.commands.farm.place import FarmPlace
from repro_kit.commands.farm.site import SiteRequest, report
from repro_kit.ui import SilentUi

pytestmark = pytest.mark.slow
CASES = 1000


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> FarmPlace:
    place = FarmPlace(tmp_path_factory.mktemp("site") / "farm")
    bench.fill(place, CASES, 12, random.Random(1))
    report(place, SiteRequest(), SilentUi())
    return place


@pytest.fixture
def opened(place: FarmPlace) -> Iterator[tuple[Any, list[str]]]:
    """The page of all cases, and what it complained of or asked for."""
    with chromium() as browser:
        page = browser.new_page()
        seen: list[str] = []
        page.on("console", lambda message: seen.append(message.text))
        page.on("pageerror", lambda error: seen.append(str(error)))
        page.on("request", lambda request: seen.append(request.url))
        page.goto((place.directory / "report" / "index.html").as_uri())
        yield page, seen


def test_a_thousand_cases_are_filtered_and_nothing_is_loaded(opened: tuple[Any, list[str]], place: FarmPlace) -> None:
    page, seen = opened
    with place.reading() as store:
        cases = store.cases()
    counts = Counter(case.state for case in cases)
    rows, shown = page.locator("#rows tr:visible"), page.get_by_role("status")
    assert rows.count() == CASES
    assert shown.inner_text() == f"{CASES} of {CASES} cases"
    state = max(counts, key=lambda each: counts[each])
    page.locator("[name=state]").select_option(state)
    assert rows.count() == counts[state] < CASES
    operator = next(case.facts.operator for case in cases if case.state is state and case.facts.operator)
    page.locator("[name=operator]").select_option(operator)
    both = [case for case in cases if case.state is state and case.facts.operator == operator]
    assert rows.count() == len(both) > 0
    page.locator("[name=text]").fill(both[0].name.upper())
    assert both[0].name in rows.first.inner_text()
    page.locator("[name=days]").fill("100000")
    assert (rows.count(), shown.inner_text()) == (0, f"0 of {CASES} cases")
    page.locator("[name=days]").fill("")
    page.get_by_role("link", name=both[0].name, exact=True).last.click()
    assert page.get_by_role("heading", level=1).inner_text().startswith(both[0].name)
    own = [(place.directory / "report" / name).as_uri() for name in ("index.html", f"cases/{both[0].id[:16]}.html")]
    assert seen == own
    assert Path(place.directory / "report" / "feed.atom").is_file()


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1280, "dark")])
def test_the_pages_fit_and_are_read_without_javascript(place: FarmPlace, width: int, scheme: Any) -> None:
    with chromium() as browser:
        context = browser.new_context(
            java_script_enabled=False, viewport={"width": width, "height": 740}, color_scheme=scheme
        )
        page = context.new_page()
        for name in ("index.html", f"cases/{bench_case(place)[:16]}.html"):
            page.goto((place.directory / "report" / name).as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            is_dark = page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
            assert is_dark == (scheme == "dark")
        page.goto((place.directory / "report" / "index.html").as_uri())
        assert page.locator("#rows tr:visible").count() == CASES
        drawn = page.evaluate("[...document.querySelectorAll('.key path')].map(box => box.getAttribute('d'))")
        assert len(set(drawn)) == 4  # verdicts differ in shape, too


def bench_case(place: FarmPlace) -> str:
    """The id of the case with the most results that differ."""
    with place.reading() as store:
        return max(store.cases(), key=lambda case: len(case.evidence)).id
