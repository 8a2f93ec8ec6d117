"""The picture of a reduction's course."""

import re
from xml.etree import ElementTree

import pytest

from repro_kit.bundle.pages.drawings import curve
from repro_kit.case.stage_results import Reduction, ReductionStep

SVG = "{http://www.w3.org/2000/svg}"
STEPS = (
    ReductionStep("guess", 30, 4, "history/000.py", 1.5),
    ReductionStep("bypass", 7, 9, "history/001.py", 4.0),
    ReductionStep("recipe", 7, 20, "history/002.py", 9.25),
)


def reduction(steps: tuple[ReductionStep, ...], before: int = 190, after: int = 7, seconds: float = 12.0) -> Reduction:
    return Reduction(before, after, 31, seconds, verified=True, self_contained=True, steps=steps)


def test_it_falls_from_the_first_to_the_last() -> None:
    root = ElementTree.fromstring(curve(reduction(STEPS)))
    path = root.find(f"{SVG}path").get("d")
    across = [float(it) for it in re.findall(r"H([\d.]+)", path)]
    down = [float(it) for it in re.findall(r"V([\d.]+)", path)]
    assert path.startswith("M56.0 16.0")
    assert across == sorted(across) and across[-1] == 624
    assert down == sorted(down) and down[-1] == pytest.approx(212 - 196 * 7 / 190, abs=0.1)
    assert len(root.findall(f"{SVG}circle")) == 1 + len(STEPS)


def test_it_says_in_words_what_it_shows_and_needs_nothing_else() -> None:
    text = curve(reduction(STEPS))
    root = ElementTree.fromstring(text)
    assert root.get("role") == "img"
    assert root[0].text == "Statements left against seconds"
    assert root[1].text == "From 190 to 7 statements in 12 seconds, 3 accepted steps and 31 tries."
    assert re.findall(r"https?://[^\"]*", text) == ["http://www.w3.org/2000/svg"]
    assert set(re.findall(r'(?:fill|stroke)="([^"]*)"', text)) == {"currentColor", "none"}


@pytest.mark.parametrize(
    ("before", "after", "seconds", "marks"),
    [
        (190, 7, 12.0, [["0", "50", "100", "150"], ["0", "5", "10"]]),
        (3, 3, 0.0, [["0", "1", "2", "3"], ["0", "1"]]),
        (2000, 1, 1800.0, [["0", "500", "1000", "1500", "2000"], ["0", "500", "1000", "1500"]]),
        (0, 0, 0.2, [["0", "1"], ["0", "1"]]),
    ],
)
def test_axes_have_few_round_marks(before: int, after: int, seconds: float, marks: list[list[str]]) -> None:
    root = ElementTree.fromstring(curve(reduction((), before, after, seconds)))
    texts = [(it.get("text-anchor"), it.text) for it in root.findall(f"{SVG}text")]
    up = [text for anchor, text in texts if anchor == "end"]
    across = [text for anchor, text in texts if anchor == "middle" and text not in ("seconds", "statements")]
    assert [up, across] == marks
