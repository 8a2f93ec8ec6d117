"""Does it still fail with what is the program's own taken out: its changes of torch, and its operators?"""

from __future__ import annotations

from collections.abc import Sequence

from repro_kit.files import read_text
from repro_kit.model.ablation.cell import Cell
from repro_kit.model.ablation.cell_plan import CellPlan
from repro_kit.model.ablation.diagnosis import OPERATORS_CHECKED, TAKEN_OUT, WITHOUT_CHANGES, WITHOUT_OPERATORS
from repro_kit.model.ablation.layer import first_failing, name_layer
from repro_kit.model.ablation.other_culprits import mismatch_of
from repro_kit.model.failure.failure import MEASURED, Layer
from repro_kit.model.recipe import Recipe
from repro_kit.model.run_outcome import RunOutcome
from repro_kit.probe.repro_probe.protocol.entries import ENTRIES
from repro_kit.runner.launch import PROBE
from repro_kit.stages.ablate.cells.base import Cells

_FILE = "repro_setup"


def taken_out(subject: Cells, cells: Sequence[Cell], recipe: Recipe) -> list[Cell]:
    """The failing cell without what the program changes in torch and, where it stays, without the program's operators.

    There are none where the text of the subject has no such thing, or where a backend of the user's own is at fault.
    """
    layer, _ = name_layer(cells, recipe)
    failing = first_failing(cells, recipe)
    failure = failing.verdict.failure if failing else None
    if failing is None or layer in (Layer.USER, Layer.BACKEND) or (failure is not None and failure.kind in MEASURED):
        return []
    changes = _without_changes(subject, failing) if subject.changes_torch() else []
    if not subject.uses_custom_operators() or (changes and changes[0].outcome is RunOutcome.PASSES):
        return changes
    return [*changes, *_without_operators(subject, failing)]


def _without_changes(subject: Cells, failing: Cell) -> list[Cell]:
    """The failing cell without all changes and, where that passes, without those of one kind at a time."""
    (whole,) = subject.run([_plan(failing, WITHOUT_CHANGES, tuple(TAKEN_OUT))])
    if whole.outcome is not RunOutcome.PASSES:
        return [whole]
    return [whole, *subject.run([_plan(failing, f"{WITHOUT_CHANGES}: {kind}", (kind,)) for kind in TAKEN_OUT])]


def _without_operators(subject: Cells, failing: Cell) -> list[Cell]:
    """A run in eager that checks the program's operators and, if one is not as it says, the failing cell without them.

    What is exported cannot do without: its graph has no breaks.
    """
    backend, axes = failing.recipe.backend, {"contrast": OPERATORS_CHECKED}
    check = setup_of("own_operators", "check()")
    cells = subject.run(
        [CellPlan("eager with custom operators checked", failing.recipe, compiled=False, axes=axes, setup=check)]
    )
    if not mismatch_of({OPERATORS_CHECKED: cells[0]}) or backend in ENTRIES:
        return cells
    without = CellPlan(
        f"{backend} without custom operators",
        failing.recipe.with_(fullgraph=False),
        overridden=(*failing.changed, "fullgraph"),
        axes={**failing.changed, "fullgraph": False, "contrast": WITHOUT_OPERATORS},
        setup=setup_of("own_operators", "keep_out()"),
    )
    return [*cells, *subject.run([without])]


def setup_of(module: str, call: str) -> str:
    """Python code that runs a module of the probe's `change` package, and then `call`.

    It runs under the name of a file of its own, so that its frames are told from the program's.
    """
    code = read_text(PROBE / "repro_probe" / "change" / f"{module}.py") + f"\n\n{call}\n"
    return f"exec(compile({code!r}, {_FILE!r}, 'exec'), {{'__name__': {_FILE!r}, '__file__': {_FILE!r}}})\n"


def keeping(kinds: Sequence[str]) -> str:
    """Python code that keeps these kinds of things as torch has them."""
    return setup_of("originals", f"keep(*{tuple(kinds)!r})")


def _plan(failing: Cell, contrast: str, kinds: Sequence[str]) -> CellPlan:
    what = TAKEN_OUT[kinds[0]] if len(kinds) == 1 else "what the program changes in torch"
    return CellPlan(
        f"{failing.recipe.backend} without {what}",
        failing.recipe,
        overridden=tuple(failing.changed),
        axes={**failing.changed, "contrast": contrast},
        setup=keeping(kinds),
    )
