"""Measure how often the subject fails, before its cells run: with a flaky failure, one passing run is no evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from repro_kit.model.ablation.cell_plan import CellPlan
from repro_kit.model.failure.failure import Status
from repro_kit.model.recipe import Recipe
from repro_kit.reduce.flaky import MEASURE, RUNS_BEFORE_DETERMINISTIC, Tally
from repro_kit.stages.ablate.cells.base import Cells
from repro_kit.stages.ablate.cells.script_cells import OnScript

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
