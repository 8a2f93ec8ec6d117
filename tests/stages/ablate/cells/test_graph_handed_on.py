"""A weaker backend that fails by the code that it prints for a graph does not stand in for the subject's own."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from repro_kit.model.ablation.causes import diagnose
from repro_kit.model.ablation.cell import Cell
from repro_kit.model.ablation.cell_plan import CellPlan
from repro_kit.model.ablation.handed_on import giver_of
from repro_kit.model.failure.failure import Difference, Failure, Kind, Layer, Status, Verdict
from repro_kit.model.recipe import LADDER, Recipe
from repro_kit.stages.ablate.cells.graph_handed_on import with_graph_interpreted

WRONG = Verdict(Status.FAIL, Failure(Kind.ACCURACY, difference=Difference("value", "output 0", max_rel=1.0)))
PASS = Verdict(Status.PASS)


class Subject:
    """Passes with its graph interpreted, or fails alike."""

    def __init__(self, *, is_right: bool) -> None:
        self.is_right = is_right
        self.asked: list[CellPlan] = []

    def run(self, plans: Sequence[CellPlan]) -> list[Cell]:
        self.asked += plans
        verdict = PASS if self.is_right else WRONG
        return [
            Cell(plan.name, True, plan.recipe, verdict, same=not self.is_right, changed=dict(plan.axes))
            for plan in plans
        ]


def ladder(failing: Sequence[str], own: str = "inductor", verdict: Verdict = WRONG) -> list[Cell]:
    cells = [
        Cell(
            name,
            True,
            Recipe(backend=name),
            verdict if name in failing else PASS,
            same=name in failing,
            changed={} if name == own else {"backend": name},
        )
        for name in dict.fromkeys((*LADDER, own))
    ]
    return [Cell("no torch.compile", False, Recipe(), PASS), *cells]


def interpreted(subject: Subject, cells: Sequence[Cell], own: str = "inductor") -> list[Cell]:
    given: Any = subject
    return with_graph_interpreted(given, cells, Recipe(backend=own))


def test_where_the_graph_is_right_the_own_backend_is_at_fault() -> None:
    subject = Subject(is_right=True)
    cells = interpreted(subject, ladder(LADDER))
    diagnosis = diagnose(cells, Recipe())
    assert [plan.recipe.backend for plan in subject.asked] == ["aot_eager_decomp_partition"]
    assert diagnosis.layer is Layer.INDUCTOR
    assert "'eager' and 'aot_eager' and 'aot_eager_decomp_partition' too, but not where the graph is" in (
        diagnosis.sentence
    )


def test_where_the_graph_is_wrong_the_weaker_backend_stands() -> None:
    cells = interpreted(Subject(is_right=False), ladder(LADDER))
    assert diagnose(cells, Recipe()).layer is Layer.DYNAMO


@pytest.mark.parametrize(
    "cells",
    [
        ladder(["inductor"]),  # no weaker backend fails
        ladder(["eager", "aot_eager"]),  # the own backend passes
        ladder(LADDER, verdict=replace(WRONG, failure=Failure(Kind.DYNAMO_ERROR))),  # no graph was run
    ],
)
def test_nothing_is_asked_where_nothing_could_be_told(cells: list[Cell]) -> None:
    subject = Subject(is_right=True)
    assert interpreted(subject, cells) == cells
    assert not subject.asked


@pytest.mark.parametrize(
    ("own", "failing", "giver"),
    [
        ("inductor", "eager", "aot_eager_decomp_partition"),
        ("aot_eager", "eager", "eager"),
        ("mine", "eager", "eager"),
        ("mine", "aot_eager", ""),  # what the user's own backend gets is not known then
        ("inductor", "inductor", ""),
        ("aot_eager", "inductor", ""),
        ("export", "eager", ""),
    ],
)
def test_the_backend_that_stops_at_the_graph(own: str, failing: str, giver: str) -> None:
    assert giver_of(own, failing) == giver
