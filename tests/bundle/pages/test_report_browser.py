"""`report.html` in a real browser: what is shown, clicked, filtered and copied. Skipped where there is none."""

import pytest

from chromium import chromium
from report_pages import DIAMOND, page_of
from stories import story_of

pytestmark = pytest.mark.slow

PHONE = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def browser():
    with chromium() as launched:
        yield launched


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    place = tmp_path_factory.mktemp("page") / "report.html"
    place.write_text(page_of(story_of("accuracy", program=DIAMOND, original=DIAMOND)), encoding="utf-8")
    return place.as_uri()


@pytest.fixture
def opened(browser, address):
    contexts = []

    def open_page(**settings):
        context = browser.new_context(**settings)
        contexts.append(context)
        page = context.new_page()
        page.complaints = []
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda request: page.complaints.append(request.url) if request.url != address else None)
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()


def test_a_click_copies_the_whole_reproducer(opened):
    page = opened(permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy repro.py").click()
    page.get_by_role("button", name="Copy repro.py").get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").strip() == story_of("accuracy").repro.strip()
    assert page.complaints == []


def test_the_cells_are_filtered_by_words_and_verdict(opened):
    page = opened()
    page.get_by_text("cells, and how to repeat them").click()
    rows = page.locator("#cells tbody tr:visible")
    assert rows.count() == 7
    page.get_by_label("Verdict").select_option("fails")
    assert rows.count() == 3
    page.get_by_label("Filter").fill("dynamic=TRUE")
    assert rows.count() == 1 and page.get_by_text("1 of 7 shown").is_visible()
    assert page.complaints == []


@pytest.mark.parametrize("javascript", [True, False])
def test_it_fits_a_phone_with_and_without_javascript(opened, javascript):
    page = opened(viewport=PHONE, java_script_enabled=javascript)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert page.get_by_role("heading", name="Reproducer", exact=True).is_visible()
    assert page.get_by_text("import torch").first.is_visible()
    page.get_by_text("cells, and how to repeat them").click()
    assert page.get_by_text("python cell.py inductor True").is_visible()


def test_every_link_at_the_top_of_a_wide_page_is_in_view(opened):
    page = opened(viewport={"width": 700, "height": 740})
    wide, shown = page.evaluate(
        "[document.querySelector('nav').scrollWidth, document.querySelector('nav').clientWidth]"
    )
    assert wide <= shown


def test_print_has_no_buttons_and_no_links_to_sections(opened):
    page = opened()
    page.get_by_text("cells, and how to repeat them").click()
    parts = ("nav", ".copy", ".filter")
    assert all(page.locator(part).first.is_visible() for part in parts)
    page.emulate_media(media="print")
    assert not any(page.locator(part).first.is_visible() for part in parts)


CONTRAST = """() => {
  const light = ([r, g, b]) => [r, g, b].map((it) => it / 255)
    .map((it) => it <= 0.03928 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4)
    .reduce((sum, it, at) => sum + it * [0.2126, 0.7152, 0.0722][at], 0);
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const behind = (it) => {
    for (; it; it = it.parentElement) {
      const found = rgb(getComputedStyle(it).backgroundColor);
      if (found.length < 4 || found[3] === 1) return found;
    }
    return rgb(getComputedStyle(document.body).backgroundColor);
  };
  const poor = [];
  for (const it of document.querySelectorAll("body *")) {
    const says = [...it.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!says || it.closest("svg, script, style")) continue;
    const [a, b] = [light(rgb(getComputedStyle(it).color)), light(behind(it))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push(`${it.tagName} ${it.className} ${ratio.toFixed(2)}`);
  }
  return poor;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out(opened, scheme):
    page = opened(color_scheme=scheme)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")
    assert page.evaluate(CONTRAST) == []


def test_everything_can_be_reached_by_keyboard(opened):
    page = opened()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the report"
    names = page.evaluate(
        "[...document.querySelectorAll('button, input, select')].filter((it) => it.tabIndex < 0"
        " || !(it.getAttribute('aria-label') || it.labels?.length)).length"
    )
    assert names == 0
