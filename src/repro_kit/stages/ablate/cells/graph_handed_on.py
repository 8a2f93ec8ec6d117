"""Is the graph right that a weaker backend hands on? Then its failure is another one than the subject's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from repro_kit.model.ablation.axis import varied
from repro_kit.model.ablation.cell import Cell
from repro_kit.model.ablation.cell_plan import CellPlan
from repro_kit.model.ablation.diagnosis import INTERPRETED
from repro_kit.model.ablation.handed_on import INTERPRETERS
from repro_kit.model.ablation.layer import is_own
from repro_kit.model.failure.failure import Kind
from repro_kit.model.recipe import LADDER, Recipe
from repro_kit.model.run_outcome import RunOutcome
from repro_kit.stages.ablate.cells.base import Cells

#: Failures that show when a graph has run.
_OF_RUNS = (Kind.ACCURACY, Kind.RUNTIME_ERROR, Kind.CRASH)


def with_graphs_interpreted(subject: Cells, cells: Sequence[Cell], recipe: Recipe) -> list[Cell]:
    """`cells`, and the first weaker backends that fail alike with their graph interpreted.

    Where that passes, the weaker backend's cells count as another failure, and the next one is asked.
    """
    failing = {cell.recipe.backend: cell for cell in cells if is_own(cell, recipe) and cell.same}
    known = list(cells)
    if recipe.backend not in failing:
        return known
    for backend in takewhile(lambda name: name != recipe.backend, LADDER):
        failure = failing[backend].verdict.failure if backend in failing else None
        if failure is None or failure.kind not in _OF_RUNS:
            continue
        plan = CellPlan(
            f"{backend} with its graph interpreted",
            varied(recipe, "backend", backend),
            overridden=("backend",),
            axes={"backend": backend, "contrast": f"{INTERPRETED}: {backend}"},
            setup=INTERPRETERS,
        )
        (interpreted,) = subject.run([plan])
        if interpreted.outcome is RunOutcome.PASSES:
            known = [replace(it, same=False) if it.compiled and it.recipe.backend == backend else it for it in known]
        known.append(interpreted)
        if interpreted.outcome is not RunOutcome.PASSES:
            break
    return known
