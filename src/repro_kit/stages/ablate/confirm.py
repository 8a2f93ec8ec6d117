"""How sure an ablation is: how often the subject fails, and what the captured program and the script say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from repro_kit.diagnosis.axes import varied
from repro_kit.diagnosis.cell import Cell, CellPlan, word
from repro_kit.diagnosis.layer import first_failing, passing_before
from repro_kit.failure.failure import Status
from repro_kit.recipe import Recipe
from repro_kit.reduce.flaky import MEASURE, RUNS_BEFORE_DETERMINISTIC, Tally
from repro_kit.stages.ablate.cells.base import Cells
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


_RUNS_OF_SCRIPT = 3  # runs of a script: fewer, since a script takes longer and its bundle is checked later
_MEASURE_SLOW = 5
_SLOW = 30.0  # seconds of one run
_MOST_REPEATS = 20


def rate(cells: Cells, plans: Sequence[CellPlan], recipe: Recipe) -> Tally:
    """Count the runs of the subject with its own `recipe`, and the failing ones; none for a timed symptom."""
    own_plan = next(
        (plan for plan in plans if plan.compiled and plan.recipe == recipe and not (plan.no_effect or plan.setup)), None
    )
    on_script = isinstance(cells, OnScript)
    if own_plan is None or (isinstance(cells, OnScript) and cells.symptom is not None and cells.symptom.timed):
        return Tally()
    if cells.target is not None and cells.target.kind.policy.slow:  # a hang takes its limit each time
        return _of(cells, own_plan, 1)
    tally = _of(cells, own_plan, _RUNS_OF_SCRIPT if on_script else RUNS_BEFORE_DETERMINISTIC)
    if tally.failed == tally.runs:
        return tally
    return _of(cells, own_plan, _MEASURE_SLOW if cells.usual() > _SLOW else MEASURE)


def repeats(tally: Tally) -> int:
    """How many runs a cell must pass before it counts as passing."""
    return min(tally.repeats, _MOST_REPEATS)


def rate_sentence(tally: Tally) -> str:
    """What a flaky failure means for the cells; empty if the failure occurred every time."""
    if not tally.flaky:
        return ""
    return (
        f"The failure is flaky ({tally.failed} of {tally.runs} runs): a way to compile counts as passing after "
        f"{repeats(tally)} passing runs."
    )


def _of(cells: Cells, own_plan: CellPlan, runs: int) -> Tally:
    """Run the plan `runs` times; the first run is the cell of the matrix itself."""
    again = [
        replace(own_plan, name=f"{own_plan.name}, run {at}", axes={**own_plan.axes, "run": at})
        for at in range(2, runs + 1)
    ]
    judged = [cell for cell in cells.run([own_plan, *again]) if cell.verdict.status in (Status.PASS, Status.FAIL)]
    return Tally(sum(cell.same for cell in judged), len(judged))
