"""Expectations, comparison and words: all read off an ablation alone."""

import pytest

from repro_kit.bundle.pages.markdown import markdown
from repro_kit.diagnosis.cell import Ablation, Cell
from repro_kit.diagnosis.report import CellChange, changes, counts, layout, parse_expectation
from repro_kit.failure.failure import Failure, Layer, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature
from repro_kit.recipe import LADDER, Recipe

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
        ("passes=inductor", "its verdict is: fails"),
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
        CellChange("layer", "inductor", "none"),
        CellChange("inductor", "fails", "passes"),
        CellChange("other", "fails differently: compile-error: a | b", ""),
        CellChange("later", "fails (inferred)", ""),
    ]


def test_markdown_keeps_its_tables_whole() -> None:
    rows = [line for line in markdown(ABLATION).splitlines() if line.startswith("|")]
    assert any("[1]" in row for row in rows)
    assert "[1] compile-error: a | b" in markdown(ABLATION)
    for row in rows:
        assert row.replace("\\|", "").count("|") in (3, 4)


def grid_cell(backend: str, dynamic: bool | None, verdict: Verdict, same: bool, **more: object) -> Cell:
    changed = {"backend": backend, "dynamic": dynamic}
    recipe = Recipe(backend=backend, dynamic=dynamic)
    signature = None if verdict.failure is None else Signature(Kind.RUNTIME_ERROR, message="boom")
    name = f"{backend} dynamic={dynamic}"
    return Cell(name, True, recipe, verdict, signature, same=same, changed=changed, **more)  # type: ignore[arg-type]


def test_the_grid_has_a_row_a_backend_and_a_column_a_dynamic_setting() -> None:
    passes = Verdict(Status.PASS)
    cells = (
        Cell("no torch.compile", False, Recipe(), passes),
        grid_cell("eager", None, passes, False),
        grid_cell("eager", True, FAIL, False),
        grid_cell("inductor", None, FAIL, True),
        grid_cell("inductor", True, FAIL, True, inferred="eager dynamic=True"),
        Cell("inductor mode=max-autotune", True, Recipe(mode="max-autotune"), FAIL, same=True, changed={"mode": 1}),
        Cell("script: eager", True, Recipe(backend="eager"), passes, subject="script", changed={"backend": "eager"}),
    )
    made = layout(Ablation("program", cells))
    assert made.columns == ("backend", "dynamic=None", "dynamic=True")
    assert made.rows == (
        ("no torch.compile", "✓ passes", ""),
        ("eager", "✓ passes", "! other [1]"),
        ("inductor", "✗ fails", "≈ fails"),
    )
    assert made.notes == ("[1] runtime-error: boom",)
    assert [row[0] for row in made.rest] == ["inductor mode=max-autotune", "script: eager"]
    assert "inferred" in made.legend
    assert counts(cells) == "7 cells: 6 run, 1 inferred"


def test_the_grid_fits_80_columns() -> None:
    cells = [grid_cell(name, dynamic, FAIL, False) for name in LADDER for dynamic in (None, True, False)]
    made = layout(Ablation("program", tuple(cells)))
    widths = [max(len(row[at]) for row in (made.columns, *made.rows)) for at in range(len(made.columns))]
    assert sum(widths) + 3 * len(widths) + 1 <= 80
