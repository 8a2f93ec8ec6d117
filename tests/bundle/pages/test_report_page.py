"""`report.html`: valid, self-contained, complete without JavaScript; the pictures in it."""

import re
from html import escape
from html.parser import HTMLParser
from itertools import pairwise

import html5lib
import pytest

from programs import HEAD
from report_pages import DIAMOND, page_of
from repro_kit.bundle.pages.drawings import MOST, draw, nodes_of
from repro_kit.bundle.pages.html import report
from repro_kit.graph import parse
from stories import story_of


def full():
    return story_of("accuracy", program=DIAMOND, original=DIAMOND)


@pytest.mark.parametrize(
    "story",
    [
        full(),
        story_of(
            "hang",
            level="script",
            program="",
            ablation=None,
            reduction=None,
            twin=None,
            aspects=(),
            reproducer_kind=None,
        ),
    ],
    ids=["everything", "little"],
)
def test_a_page_is_valid_and_loads_nothing(story):
    page = page_of(story)
    html5lib.HTMLParser(strict=True).parse(page)
    assert not re.search(r"<(?:link|img|iframe|object|embed)\b|\bsrc=|url\(|@import", page)
    assert "default-src 'none'" in page


class Outline(HTMLParser):
    """Ids, links within the page, levels of headings, and elements that a screen reader needs a name for."""

    def __init__(self, page):
        super().__init__()
        self.ids, self.targets, self.levels, self.named_by = [], [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        self.targets += [given["href"][1:]] if given.get("href", "").startswith("#") else []
        self.levels += [int(tag[1])] if re.fullmatch("h[1-6]", tag) else []
        self.named_by += [given["aria-labelledby"]] if "aria-labelledby" in given else []
        if tag in ("svg", "pre") or given.get("role") == "region":
            assert given.get("aria-label") or tag == "svg", tag


def test_headings_and_links_lead_somewhere():
    outline = Outline(page_of(full()))
    assert len(outline.ids) == len(set(outline.ids))
    assert {*outline.targets, *outline.named_by} <= set(outline.ids)
    assert outline.levels[0] == 1 and outline.levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(outline.levels))


def test_the_essentials_are_there_without_javascript():
    page = page_of(full())
    without = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    title = escape(full().title).replace("&#x27;", "&#39;")
    for text in (
        title,
        "import torch",
        "Graph, before and after",
        "python cell.py inductor True",
        "x&lt;y: fails",
        "<code>inductor.simdlen=1</code>: slower",
        "<li>2 graph breaks in <code>train.py</code>.</li>",
    ):
        assert text in without
    assert "<button" not in without and "&lt;script&gt;alert(1)" in without and "<script>alert" not in page
    assert '<span class="added">+    x = 1 &lt; 2</span>' in without


def test_workarounds_that_work_are_shown_with_what_to_paste():
    page = page_of(full())
    assert "@torch.compiler.disable" in page and "leave inner to eager" in page and "no cure" not in page


def test_a_program_that_cannot_be_read_is_left_out():
    for text in ("no program", HEAD + "x = " + "(" * 100_000):
        page = page_of(story_of("accuracy", program=text))
        assert "Graph, before and after" not in page and "import torch" in page


def test_repro_is_marked_so_that_it_is_not_redacted_twice():
    page, marks = report(full())
    mark = "@@code 0@@"
    assert mark in page and "expected = run(f)" not in page and "expected = run(f)" in marks[mark]


def test_backends_against_dynamic():
    page = page_of(full())
    (table,) = re.findall(r'<table class="matrix">.*?</table>', page, re.DOTALL)
    rows = re.findall(r'<th scope="row">(.*?)</th>(.*?)</tr>', table)
    verdicts = {name: re.findall(r'<span class="(\w+)">', cells) for name, cells in rows}
    assert verdicts["eager"] == ["passes"] * 3 and verdicts["inductor"] == ["fails"] * 3


def test_a_graph_is_drawn_from_top_to_bottom():
    nodes = nodes_of(parse(DIAMOND))
    assert [node.kind for node in nodes].count("statement") == 5
    svg = draw(nodes, "G", {"a"})
    tops = {name: float(top) for top, name in re.findall(r'<text x="[\d.]+" y="([\d.]+)"[^>]*>(\w+) =', svg)}
    assert tops["a"] < tops["b"] == tops["c"] < tops["d"]
    assert svg.count('class="statement marked"') == 1 and "d = b &lt; c" in svg
    lefts = [
        (float(top), float(left), float(left) + float(width))
        for left, top, width in re.findall(r'<rect x="([\d.-]+)" y="([\d.]+)" width="([\d.]+)"', svg)
    ]
    for row in {top for top, _, _ in lefts}:
        spans = sorted(span[1:] for span in lefts if span[0] == row)
        assert all(before[1] < after[0] for before, after in pairwise(spans))


def test_a_large_graph_is_not_drawn():
    lines = "".join(f"    v{number + 1} = torch.sin(v{number})\n" for number in range(MOST))
    text = f"{HEAD}RECIPE = {{}}\n\n\ndef graph(v0):\n{lines}    return (v1,)\n\n\ndef calls():\n    return [(1,)]\n"
    assert draw(nodes_of(parse(text)), "G") == ""
    assert "not drawn" in page_of(story_of("accuracy", program=text))
