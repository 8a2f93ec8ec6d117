"""Does it still fail with what the program changes in torch taken out? Cells that put torch's own back."""

from __future__ import annotations

from collections.abc import Sequence

from repro_kit.files import read_text
from repro_kit.model.ablation.cell import Cell
from repro_kit.model.ablation.cell_plan import CellPlan
from repro_kit.model.ablation.diagnosis import TAKEN_OUT, WITHOUT_CHANGES
from repro_kit.model.ablation.layer import first_failing, name_layer
from repro_kit.model.failure.failure import Layer
from repro_kit.model.recipe import Recipe
from repro_kit.model.run_outcome import RunOutcome
from repro_kit.runner.launch import PROBE
from repro_kit.stages.ablate.cells.base import Cells

_FILE = "repro_setup"


def taken_out(subject: Cells, cells: Sequence[Cell], recipe: Recipe) -> list[Cell]:
    """The failing cell without all changes and, where that passes, without those of one kind at a time.

    There are none where the text of the subject changes nothing, or where a backend of the user's own is at fault.
    """
    layer = name_layer(cells, recipe).layer
    failing = first_failing(cells, recipe)
    failure = failing.verdict.failure if failing else None
    if failing is None or layer in (Layer.USER, Layer.BACKEND) or not subject.changes_torch():
        return []
    if failure is not None and failure.kind.policy.measured:
        return []
    (whole,) = subject.run([_plan(failing, WITHOUT_CHANGES, tuple(TAKEN_OUT))])
    if whole.outcome is not RunOutcome.PASSES:
        return [whole]
    return [whole, *subject.run([_plan(failing, f"{WITHOUT_CHANGES}: {kind}", (kind,)) for kind in TAKEN_OUT])]


def setup_of(kinds: Sequence[str]) -> str:
    """Python code that keeps these kinds of things as torch has them.

    It runs under the name of a file of its own, so that its frames are told from the program's.
    """
    code = read_text(PROBE / "repro_probe" / "change" / "originals.py") + f"\n\nkeep(*{tuple(kinds)!r})\n"
    return f"exec(compile({code!r}, {_FILE!r}, 'exec'), {{'__name__': {_FILE!r}, '__file__': {_FILE!r}}})\n"


def _plan(failing: Cell, contrast: str, kinds: Sequence[str]) -> CellPlan:
    what = TAKEN_OUT[kinds[0]] if len(kinds) == 1 else "what the program changes in torch"
    return CellPlan(
        f"{failing.recipe.backend} without {what}",
        failing.recipe,
        overridden=tuple(failing.changed),
        axes={**failing.changed, "contrast": contrast},
        setup=setup_of(kinds),
    )
