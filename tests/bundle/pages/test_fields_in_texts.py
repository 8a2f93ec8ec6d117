"""What a story knows stands in `issue.md`, `README.md` and `report.html` alike."""

import re
from html import unescape

import pytest

from report_pages import page_of
from repro_kit.bundle.pages import markdown
from repro_kit.failure.differences import ResultErrors, Rounding
from repro_kit.failure.failure import Layer
from stories import shown_issue, story_of

RANDOM = Rounding(why="the compiled graph draws others", restored_by="fallback_random", random=True)
ROUNDED = Rounding(errors=(ResultErrors("output 0", "float16", 64, 0.1, True, gap=0.125),), growth=12.0)
SCRIPT = {"level": "script", "program": "", "aspects": (), "sources": (("files/train.py", "import torch\n"),)}


def in_words(text):
    return " ".join(re.sub(r"[`*]", "", text).split())


def issue(story):
    return in_words(shown_issue(story))


def readme(story):
    return in_words(markdown.readme(story))


def page(story):
    """The words of the page, without its tags."""
    return in_words(unescape(re.sub(r"<[^>]+>", "", page_of(story))).replace("’", "'"))


TEXTS = pytest.mark.parametrize("write", [issue, readme, page])


@TEXTS
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"needs": ("the environment variable CC",)}, "the environment variable CC, which the bundle lacks"),
        ({"ranks": ("rank 0 waits in all_reduce",)}, "rank 0 waits in all_reduce"),
        ({"dropped": ("the layer, since it passed",)}, "the layer, since it passed"),
        ({"others": ("TypeError: another",)}, "TypeError: another"),
        ({"flaky": "it failed in 2 of 3 runs"}, "it failed in 2 of 3 runs"),
        ({"flaky": "it failed in 2 of 3 runs", "verified": False}, "it failed in 2 of 3 runs"),
        ({"moved": "It was recorded on cuda."}, "It was recorded on cuda."),
        ({"proof": "Eager gives the same in two runs."}, "Eager gives the same in two runs."),
        ({"changed": "What differs from eager has changed."}, "What differs from eager has changed."),
        ({"evidence": "Only inductor fails."}, "Only inductor fails."),
        ({"minimized": "Reduced from 7 to 2."}, "Reduced from 7 to 2."),
        ({"error": "ValueError: boom"}, "ValueError: boom"),
        ({"verified": False, "reason": "it passed there"}, "it passed there"),
        ({**SCRIPT, "reason": "no graph was captured"}, "no graph was captured"),
        ({"rounding": ROUNDED}, "Rounding, not a wrong operator: eager's own rounding explains the difference"),
        ({"rounding": ROUNDED}, "one rounding error grows 12-fold"),
        ({"rounding": RANDOM}, "Random numbers, not a wrong operator: the compiled graph draws others"),
        ({"layer": Layer.BACKEND}, "Ask whoever maintains the backend before PyTorch."),
    ],
)
def test_a_field_stands_in_every_text(changes, words, write):
    assert words in write(story_of("accuracy", **changes))
    assert words not in write(story_of("accuracy"))


@TEXTS
def test_the_table_of_errors_is_left_out_where_nothing_was_compared(write):
    assert "eager vs fp64" in write(story_of("accuracy", rounding=ROUNDED))
    assert "eager vs fp64" not in write(story_of("accuracy", rounding=RANDOM))


@pytest.mark.parametrize("write", [issue, page])
@pytest.mark.parametrize(
    ("named", "words"),
    [
        (("files/train.py",), "not checked, because repro.py runs the user's own files unchanged"),
        (("files/reduced.py",), "not checked, because repro.py runs the reduced script"),
    ],
)
def test_why_aspects_were_not_checked(named, words, write):
    is_short = write is issue and named == ("files/reduced.py",)  # the reader sees all of it
    assert (words in write(story_of("accuracy", **SCRIPT, named=named))) is not is_short
    assert "not checked" not in write(story_of("accuracy"))


def test_why_a_bundle_is_not_verified_is_not_given_as_why_it_is_not_minimized():
    text = issue(story_of("accuracy", **SCRIPT, verified=False, reason="it passed there"))
    assert text.count("it passed there") == 1 and "Not minimized. repro.py runs the user's own files" in text


def test_every_section_of_the_page_is_linked_at_its_top():
    text = page_of(story_of("accuracy", rounding=ROUNDED, bisected="torch 2.12 is the first build that fails."))
    sections = re.findall(r'<section id="(\w+)"', text)
    (links,) = re.findall(r"<nav.*?</nav>", text, re.DOTALL)
    assert re.findall(r'href="#(\w+)"', links) == sections
