"""Find the first difference between a script with the backend 'eager' and the script without torch.compile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from repro_kit.errors import StageError
from repro_kit.model.ablation.cell import Cell
from repro_kit.model.ablation.cell_plan import CellPlan
from repro_kit.model.ablation.diagnosis import AFRESH, WITNESS
from repro_kit.model.ablation.layer import first_failing, name_layer
from repro_kit.model.ablation.parting import first_differing_call
from repro_kit.model.failure.failure import Difference, Kind, Layer
from repro_kit.model.recipe import Recipe
from repro_kit.model.run_outcome import RunOutcome
from repro_kit.model.serialize import loads
from repro_kit.probe.repro_probe.protocol.findings import WITNESS as WITNESS_FILE
from repro_kit.probe.repro_probe.protocol.findings import WitnessedCall, finding
from repro_kit.probe.repro_probe.protocol.orders import Override
from repro_kit.session.verdicts import eager_run
from repro_kit.stages.ablate.cells.script_cells import OnScript


def witness(script: OnScript, cells: Sequence[Cell], recipe: Recipe) -> list[Cell]:
    """A cell whose note names the difference; none if Dynamo is not at fault, or fails only with cached code."""
    layer = name_layer(cells, recipe).layer
    failing = first_failing(cells, recipe)
    failure = failing.verdict.failure if failing else None
    afresh_passes = any(cell.changed.get("contrast") == AFRESH and cell.outcome is RunOutcome.PASSES for cell in cells)
    if (
        layer is not Layer.DYNAMO
        or failing is None
        or failure is None
        or failure.kind is not Kind.ACCURACY
        or afresh_passes
    ):
        return []
    axes = {**failing.changed, "contrast": WITNESS}
    plan = CellPlan("eager beside no torch.compile", failing.recipe, overridden=("backend",), axes=axes)
    cached = script.settled(plan)
    if cached is not None:
        return [cached]
    calls = [
        _calls(script, "witness-plain", eager_run.PROBE, eager_run.VARIABLES),
        _calls(script, "witness-eager", {"backend": "eager"}, {}),
    ]
    difference = first_differing_call(*calls)
    difference_kind = difference.what if difference else "none"
    if difference is not None and difference.what == "state":
        where = f"{difference.name} after call {difference.call}"
        seen = Difference.of_state(where, difference.eager, difference.compiled)
        failure = replace(failure, difference=seen)
    verdict = replace(
        failing.verdict,
        failure=failure,
        note=str(difference) if difference else "no difference was seen in the results and side effects of the calls",
    )
    cell = replace(failing, name=plan.name, verdict=verdict, changed={**axes, "parting": difference_kind})
    script.keep(plan, cell)
    return [cell]


def _calls(script: OnScript, name: str, override: Override, env: dict[str, str]) -> list[WitnessedCall]:
    """The calls of the process with the most calls."""
    script.verdict({**override, "witness": True}, name, env)
    files = sorted((script.case.path / "ablate" / name / "probe").glob(finding(WITNESS_FILE, "*")))
    return max(map(_read, files), key=len, default=[])


def _read(path: Path) -> list[WitnessedCall]:
    try:
        calls: list[WitnessedCall] = loads(path.read_bytes())
    except ValueError as error:
        raise StageError(f"{path} is damaged ({error}); run the command again.") from None
    return calls
