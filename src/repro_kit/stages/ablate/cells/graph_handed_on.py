"""Is the graph right that the subject's own backend gets? Then weaker backends that fail show another failure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from repro_kit.model.ablation.axis import varied
from repro_kit.model.ablation.cell import Cell
from repro_kit.model.ablation.cell_plan import CellPlan
from repro_kit.model.ablation.diagnosis import INTERPRETED
from repro_kit.model.ablation.handed_on import INTERPRETERS, giver_of
from repro_kit.model.ablation.layer import first_failing, is_own
from repro_kit.model.failure.failure import Kind
from repro_kit.model.recipe import LADDER, Recipe
from repro_kit.model.run_outcome import RunOutcome
from repro_kit.stages.ablate.cells.base import Cells

#: Failures that show when a graph has run.
_OF_RUNS = (Kind.ACCURACY, Kind.RUNTIME_ERROR, Kind.CRASH)


def with_graph_interpreted(subject: Cells, cells: Sequence[Cell], recipe: Recipe) -> list[Cell]:
    """`cells`, and one in which the graph that the subject's own backend gets is interpreted.

    Where that passes and the own backend fails, the weaker backends that fail count as another failure.
    """
    failing = first_failing(cells, recipe)
    giver = giver_of(recipe.backend, failing.recipe.backend) if failing else ""
    failure = failing.verdict.failure if failing else None
    own_fails = any(is_own(cell, recipe) and cell.recipe.backend == recipe.backend and cell.same for cell in cells)
    if not (giver and own_fails) or (failure is not None and failure.kind not in _OF_RUNS):
        return list(cells)
    plan = CellPlan(
        f"{giver} with its graph interpreted",
        varied(recipe, "backend", giver),
        overridden=("backend",),
        axes={"backend": giver, "contrast": INTERPRETED},
        setup=INTERPRETERS,
    )
    (interpreted,) = subject.run([plan])
    if interpreted.outcome is not RunOutcome.PASSES:
        return [*cells, interpreted]
    weaker = LADDER[: LADDER.index(giver) + 1]
    judged = (replace(cell, same=False) if cell.compiled and cell.recipe.backend in weaker else cell for cell in cells)
    return [*judged, interpreted]
