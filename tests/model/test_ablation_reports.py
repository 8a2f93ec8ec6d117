"""Expectations, comparison and words: all read off an ablation alone."""

import pytest

from repro_kit.bundle.ablation_markdown import markdown
from repro_kit.model.cell import Ablation, Cell
from repro_kit.model.compared import Change, changes
from repro_kit.model.expectation import parse_expectation
from repro_kit.model.failure import Failure, Kind, Layer, Status, Verdict
from repro_kit.model.recipe import Recipe
from repro_kit.model.signature import Signature

FAIL = Verdict(Status.FAIL, Failure(Kind.COMPILE_ERROR))


def cell(name: str, verdict: Verdict = FAIL, same: bool = True, **more: object) -> Cell:
    return Cell(name, True, Recipe(), verdict, Signature(Kind.COMPILE_ERROR, message="a | b"), same=same, **more)  # type: ignore[arg-type]


ABLATION = Ablation(
    "program",
    (
        cell("eager", Verdict(Status.PASS), same=False),
        cell("inductor"),
        cell("other", same=False),
        cell("later", inferred="inductor"),
    ),
    Layer.INDUCTOR,
    "Inductor is at fault.",
    torch="2.13.0",
)


@pytest.mark.parametrize("text", ["layer=inductor", "fails=inductor", "passes=eager", "cause=none", "fails=later"])
def test_expectations_that_hold(text: str) -> None:
    assert parse_expectation(text).unmet(ABLATION) == ""


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("layer=aot", "found inductor"),
        ("fails=other", "fails differently"),
        ("passes=inductor", "it: fails"),
        ("passes=gone", "no such cell"),
    ],
)
def test_expectations_that_do_not(text: str, word: str) -> None:
    assert word in parse_expectation(text).unmet(ABLATION)


@pytest.mark.parametrize(("text", "word"), [("layer", "KEY|layer="), ("layer=cuda", "no layer"), ("a=b", "layer=")])
def test_expectations_that_cannot_be(text: str, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        parse_expectation(text)


def test_comparison_names_what_differs() -> None:
    mended = Ablation("program", (ABLATION.cells[0], cell("inductor", Verdict(Status.PASS), same=False)))
    assert changes(ABLATION, ABLATION) == []
    assert changes(ABLATION, mended) == [
        Change("layer", "inductor", "none"),
        Change("inductor", "fails", "passes"),
        Change("other", "fails differently: compile-error: a | b", ""),
        Change("later", "fails (inferred)", ""),
    ]


def test_markdown_keeps_its_table_whole() -> None:
    rows = [line for line in markdown(ABLATION).splitlines() if line.startswith("|")]
    assert len(rows) == 2 + len(ABLATION.cells)
    assert {row.replace("\\|", "").count("|") for row in rows} == {4}
    assert "≈ fails (inferred)" in rows[-1]
