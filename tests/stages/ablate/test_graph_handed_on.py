"""A weaker backend that fails by the code that it prints for a graph does not stand in for the subject's own."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from repro_kit.diagnosis.causes import diagnose
from repro_kit.diagnosis.cell import Cell, CellPlan
from repro_kit.failure.failure import Difference, Failure, Layer, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.recipe import LADDER, Recipe
from repro_kit.stages.ablate.special_contrasts import with_graphs_interpreted

WRONG = Verdict(Status.FAIL, Failure(Kind.ACCURACY, difference=Difference("value", "output 0", max_rel=1.0)))
PASS = Verdict(Status.PASS)


class Subject:
    """Fails alike with the graphs of `wrong` interpreted, and passes with those of other backends."""

    def __init__(self, *wrong: str) -> None:
        self.wrong = wrong
        self.asked: list[str] = []

    def run(self, plans: Sequence[CellPlan]) -> list[Cell]:
        self.asked += [plan.recipe.backend for plan in plans]
        return [
            Cell(plan.name, True, plan.recipe, WRONG if same else PASS, same=same, changed=dict(plan.axes))
            for plan in plans
            for same in [plan.recipe.backend in self.wrong]
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
    return with_graphs_interpreted(given, cells, Recipe(backend=own))


def test_where_every_graph_is_right_the_own_backend_is_at_fault() -> None:
    subject = Subject()
    diagnosis = diagnose(interpreted(subject, ladder(LADDER)), Recipe())
    assert subject.asked == list(LADDER[:-1])
    assert diagnosis.layer is Layer.INDUCTOR
    words = "('eager' and 'aot_eager' and 'aot_eager_decomp_partition' too, but not with the graph interpreted, which"
    assert words in diagnosis.sentence


@pytest.mark.parametrize(
    ("wrong", "layer"),
    [
        (LADDER, Layer.DYNAMO),
        (LADDER[1:], Layer.AOT),
        (LADDER[2:], Layer.DECOMPOSITION),
    ],
)
def test_the_first_backend_that_hands_on_a_wrong_graph_stands(wrong: Sequence[str], layer: Layer) -> None:
    subject = Subject(*wrong)
    assert diagnose(interpreted(subject, ladder(LADDER)), Recipe()).layer is layer
    assert subject.asked == list(LADDER[: LADDER.index(wrong[0]) + 1])


def test_a_backend_of_the_users_own_is_at_fault_where_the_graph_is_right() -> None:
    cells = interpreted(Subject(), ladder(["eager", "mine"], "mine"), "mine")
    assert diagnose(cells, Recipe(backend="mine")).layer is Layer.BACKEND


@pytest.mark.parametrize(
    "cells",
    [
        ladder(["inductor"]),  # no weaker backend fails
        ladder(["eager", "aot_eager"]),  # the own backend passes
        ladder(LADDER, verdict=replace(WRONG, failure=Failure(Kind.DYNAMO_ERROR))),  # no graph was run
    ],
)
def test_nothing_is_asked_where_nothing_could_be_told(cells: list[Cell]) -> None:
    subject = Subject()
    assert interpreted(subject, cells) == cells
    assert not subject.asked
