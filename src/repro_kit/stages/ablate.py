"""Ablate: vary how the subject is compiled, and name the layer at fault."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from repro_kit.case import Case
from repro_kit.model.cell import Ablation, Cell
from repro_kit.model.failure import Status
from repro_kit.model.layer import is_own, name_layer
from repro_kit.model.recipe import LADDER, Recipe
from repro_kit.model.results import Capture, Environment
from repro_kit.stages.cells import OnProgram, OnScript, Plan, judged
from repro_kit.stages.options import Options
from repro_kit.ui import Ui

MODES = ("reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_DYNAMIC = (None, True, False)

_SYMBOLS = {Status.PASS: "✓ pass", Status.INVALID: "– invalid", Status.FLAKY: "~ flaky", Status.INFRA: "? no verdict"}


def run(case: Case, options: Options, ui: Ui) -> None:
    """Write `ablation.json`."""
    capture = case.read("capture/capture.json", Capture) if case.has("capture/capture.json") else Capture("script")
    env = case.read("env.json", Environment)
    runner = OnProgram(case, options, ui) if capture.subject == "program" else OnScript(case, options, ui)
    target = capture.signature if capture.subject == "program" else case.file.signature
    recipe = capture.recipe if capture.subject == "program" else runner.recipe()
    plans = plan(recipe, env.accelerator is not None, full=capture.subject == "program")
    cells = judged(runner.run(plans), target)
    if any(cell.same and cell.recipe.backend == "inductor" for cell in cells):
        cells += judged(runner.run(modes(recipe, env.accelerator is not None)), target)
    layer, sentence = name_layer(cells, recipe)
    notes: tuple[str, ...] = ()
    if capture.subject == "program" and case.file.signature is not None:
        cells, notes = _checked_on_script(case, options, ui, cells, recipe)
    case.write("ablation.json", Ablation(capture.subject, tuple(cells), layer, sentence, notes))
    show(cells, ui)
    for note in notes:
        ui.warn(note)
    ui.done(sentence)


def plan(recipe: Recipe, accelerator: bool, *, full: bool) -> list[Plan]:
    """The cells: plain eager, then backends × dynamic; not `full`: dynamic only for the subject's own backend."""
    cells = [Plan("no torch.compile", recipe, compiled=False)]
    backends = [*LADDER, *([recipe.backend] if recipe.backend not in LADDER else [])]
    for backend in backends:
        for dynamic in (recipe.dynamic, *(it for it in _DYNAMIC if it != recipe.dynamic)):
            if dynamic != recipe.dynamic and not full and backend != recipe.backend:
                continue
            kept: dict[str, Any] = {} if backend == recipe.backend else {"mode": None, "options": {}}
            changed = recipe.with_(backend=backend, dynamic=dynamic, **kept)
            overridden = [name for name in ("backend", "dynamic") if getattr(changed, name) != getattr(recipe, name)]
            cells.append(Plan(f"{backend} dynamic={dynamic}", changed, overridden=tuple(overridden)))
    return cells


def modes(recipe: Recipe, accelerator: bool) -> list[Plan]:
    """Inductor's modes, with the subject's own dynamic."""
    cells = []
    # Without a mode of its own, the subject's cell for Inductor is the default mode's.
    for mode in (*(["default"] if recipe.mode else []), *MODES):
        changed = recipe.with_(backend="inductor", mode=mode, options={})
        why = "" if accelerator else _NO_EFFECT_ON_CPU.get(mode, "")
        cells.append(Plan(f"inductor mode={mode}", changed, overridden=("backend", "mode"), no_effect=why))
    return cells


_NO_EFFECT_ON_CPU = {
    "reduce-overhead": "only adds CUDA graphs, and there is no CUDA device",
    "max-autotune-no-cudagraphs": "the same as max-autotune where there are no CUDA graphs",
}


def _checked_on_script(
    case: Case, options: Options, ui: Ui, cells: list[Cell], recipe: Recipe
) -> tuple[list[Cell], tuple[str, ...]]:
    """Repeat on the script the cells that decide: the last backend that passes, and the first that fails."""
    own = [cell for cell in cells if is_own(cell, recipe)]
    failing = next((cell for cell in own if cell.same), None)
    passing = [cell for cell in own if cell.verdict.status == Status.PASS and cell.recipe.backend in LADDER]
    if failing is None or failing.recipe.backend not in (*LADDER, recipe.backend):
        return cells, ()
    plans = []
    for cell in [*passing[-1:], failing]:
        own_backend = cell.recipe.backend == recipe.backend
        name = f"script: {cell.recipe.backend}"
        plans.append(Plan(name, cell.recipe, overridden=() if own_backend else ("backend",)))
    again = judged(OnScript(case, options, ui).run(plans), case.file.signature)
    notes = []
    for one, cell in zip(again, [*passing[-1:], failing], strict=True):
        if one.same != cell.same:
            notes.append(
                f"The script and the program disagree on {cell.recipe.backend}: "
                f"{_word(one)} on the script, {_word(cell)} on the program."
            )
    return [*cells, *again], tuple(notes)


def show(cells: Sequence[Cell], ui: Ui) -> None:
    """The matrix as a table."""
    rows = [[cell.name, _word(cell), _detail(cell)] for cell in cells]
    ui.table("Ablation", ["cell", "verdict", "what"], rows)


def _word(cell: Cell) -> str:
    if cell.no_effect:
        return "· no effect"
    if cell.same:
        return "✗ fails"
    return _SYMBOLS.get(cell.verdict.status, "! other failure")


def _detail(cell: Cell) -> str:
    if cell.no_effect:
        return cell.no_effect
    if cell.same:
        return "as observed"
    if cell.signature is not None and cell.verdict.status != Status.PASS:
        return cell.signature.summary()
    return cell.verdict.note
