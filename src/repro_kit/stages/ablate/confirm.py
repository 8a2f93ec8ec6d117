"""Confirm the cells that name the layer on the captured program, and on the script if the user asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from repro_kit.model.ablation.axis import varied
from repro_kit.model.ablation.cell import Cell
from repro_kit.model.ablation.cell_plan import CellPlan
from repro_kit.model.ablation.layer import first_failing, passing_before
from repro_kit.model.ablation.words import word
from repro_kit.model.failure.failure import Status
from repro_kit.model.recipe import Recipe
from repro_kit.stages.ablate.cells.program_cells import OnProgram
from repro_kit.stages.ablate.cells.script_cells import OnScript

#: An entry of `Cell.changed`: the cell ran on the captured program, and the rest on the reduced one.
CAPTURED = {"program": "captured"}


@dataclass(frozen=True)
class Confirmation:
    """The deciding cells on another subject, with a sentence for each difference."""

    cells: tuple[Cell, ...] = ()
    notes: tuple[str, ...] = ()
    disagrees: bool = False


def deciding_cells(cells: Sequence[Cell], recipe: Recipe) -> tuple[Cell, ...]:
    """The first backend of the ladder that fails, and the last one before it that passes; empty if no backend fails."""
    failing = first_failing(cells, recipe)
    if failing is None:
        return ()
    passing = passing_before(cells, recipe, failing.recipe.backend)
    return (failing,) if passing is None else (passing, failing)


def on_captured(captured: OnProgram, cells: Sequence[Cell], recipe: Recipe) -> Confirmation:
    """Run the deciding `cells` of the reduced program on the captured one. `recipe`: of the reduced program."""
    deciding = deciding_cells(cells, recipe)
    own_recipe = captured.recipe()
    plans = []
    for cell in deciding:
        changed = {"backend": cell.recipe.backend} if cell.recipe.backend != own_recipe.backend else {}
        plans.append(
            CellPlan(
                f"captured program: {cell.recipe.backend}",
                varied(own_recipe, "backend", cell.recipe.backend) if changed else own_recipe,
                overridden=tuple(changed),
                axes={**changed, **CAPTURED},
            )
        )
    return _compared(captured.run(plans), deciding, "captured program", "reduced one")


def on_script(script: OnScript, cells: Sequence[Cell], recipe: Recipe) -> Confirmation:
    """Run the deciding `cells` of a program on the script. `recipe`: of the program."""
    deciding = deciding_cells(cells, recipe)
    plans = []
    for cell in deciding:
        overridden = () if cell.recipe.backend == recipe.backend else ("backend",)
        plans.append(
            CellPlan(f"script: {cell.recipe.backend}", cell.recipe, overridden=overridden, axes=dict(cell.changed))
        )
    return _compared(script.run(plans), deciding, "script", "program")


def _compared(again: Sequence[Cell], deciding: Sequence[Cell], subject: str, first: str) -> Confirmation:
    """Compare the cells `again` of `subject` with the `deciding` cells of `first`."""
    notes, disagrees = [], False
    for new, old in zip(again, deciding, strict=True):
        tells = new.same or new.verdict.status is Status.PASS
        if tells and new.same == old.same:
            continue
        disagrees |= tells
        words = f"{word(new)} on the {subject}, {word(old)} on the {first}"
        verb = "disagree on" if tells else "could not be compared on"
        notes.append(f"The {subject} and the {first} {verb} {old.recipe.backend!r}: {words}.")
    return Confirmation(tuple(again), tuple(notes), disagrees)
