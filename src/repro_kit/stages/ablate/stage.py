"""Ablate: vary how the subject is compiled, and name the layer at fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from repro_kit.case.case import Case
from repro_kit.case.handles import ABLATION, CAPTURE, ENVIRONMENT, OBSERVATION
from repro_kit.case.stage_results import Capture
from repro_kit.errors import UsageError
from repro_kit.model.ablation.axis import parse_axis
from repro_kit.model.ablation.causes import diagnose
from repro_kit.model.ablation.cell import Ablation, Cell
from repro_kit.model.ablation.cell_plan import CellPlan
from repro_kit.model.ablation.layer import is_decided, is_own
from repro_kit.model.ablation.words import word
from repro_kit.model.failure.failure import Layer, Status
from repro_kit.model.recipe import LADDER, Recipe
from repro_kit.reduce.flaky import Tally
from repro_kit.session import leftovers
from repro_kit.session.options import Options
from repro_kit.stages.ablate.backend_names import check_names
from repro_kit.stages.ablate.cells.base import Cells
from repro_kit.stages.ablate.cells.program_cells import OnProgram
from repro_kit.stages.ablate.cells.script_cells import OnScript
from repro_kit.stages.ablate.cells.witness_pair import witness
from repro_kit.stages.ablate.contrasts import contrasts
from repro_kit.stages.ablate.matrix import Matrix
from repro_kit.stages.ablate.narrow import chain as narrow
from repro_kit.stages.ablate.rate import rate, rate_sentence, repeats
from repro_kit.stages.ablate.table import plan_rows, plan_sentence, show, show_workarounds
from repro_kit.stages.ablate.workarounds import search
from repro_kit.ui import Ui


@dataclass(frozen=True)
class Work:
    """What is to be done: the matrix, the subject's own recipe, the first cells, and who runs them."""

    matrix: Matrix
    recipe: Recipe
    plans: Sequence[CellPlan]
    cells: Cells


def run(case: Case, options: Options, ui: Ui) -> None:
    """Write `ablation.json`."""
    told = case.load(OBSERVATION).warnings if case.holds(OBSERVATION) else ()
    for sentence in leftovers.warnings():
        if sentence not in told:
            ui.warn(sentence)
    work = planned(case, options, ui)
    ui.note(plan_sentence(work.plans, work.cells))
    ui.detail("\n  ".join(plan_rows(work.plans, work.cells)))
    tally = rate(work.cells, work.plans, work.recipe) if options.repeat == 1 else Tally()
    if tally.flaky:
        ui.warn(rate_sentence(tally))
        options = replace(options, repeat=repeats(tally))
        work = planned(case, options, ui)
    until = (lambda cells: is_decided(cells, work.recipe)) if options.stop_early else None
    cells = work.cells.run(work.plans, until)
    if not options.stop_early:
        cells += work.cells.run(work.matrix.after(work.recipe, cells))
    cells += work.cells.run(contrasts(cells, work.recipe, custom=work.cells.uses_custom_operators()))
    if isinstance(work.cells, OnScript):
        cells += witness(work.cells, cells, work.recipe)
    found = diagnose(cells, work.recipe)
    notes: tuple[str, ...] = ()
    matrix = cells
    if work.cells.subject == "program" and case.file.signature is not None:
        cells, notes = _checked_on_script(case, options, ui, cells, work.recipe)
    notes = (*filter(None, [rate_sentence(tally)]), *notes)
    target = work.cells.target
    ablation = Ablation(
        work.cells.subject,
        tuple(cells),
        found.layer,
        found.sentence,
        notes,
        cause=found.cause,
        recipe=work.recipe,
        torch=case.load(ENVIRONMENT).torch or "",
        failure=target.summary() if target else "",
        failed=tally.failed,
        runs=tally.runs,
    )
    case.store(ABLATION, ablation)
    show(ablation, ui)
    steps = narrow.steps_of(options)
    if steps and target is not None and found.layer not in (None, Layer.USER):
        chain = narrow.narrow(work.cells, matrix, work.recipe, target, steps, ui)
        ablation = replace(ablation, chain=chain)
        case.store(ABLATION, ablation)
        narrow.show(chain, ui)
    if options.workarounds and found.layer is not Layer.USER:
        ablation = replace(ablation, workarounds=search.find(case, options, ui, ablation))
        case.store(ABLATION, ablation)
        show_workarounds(ablation.workarounds, ui)
    for note in notes:
        if note != rate_sentence(tally):
            ui.warn(note)
    ui.done(found.sentence)


def planned(case: Case, options: Options, ui: Ui) -> Work:
    """The plan; raises ReproKitError when the options ask for what cannot be."""
    capture = case.current(CAPTURE) or Capture("script")
    if options.on == "program" and capture.subject != "program":
        raise UsageError(f"There is no program to ablate on ({capture.note or 'none was captured'}); use --on script.")
    on_program = capture.subject == "program" and options.on != "script"
    cells: Cells
    if on_program:
        cells = OnProgram(case, options, ui, capture.signature)
    else:
        cells = OnScript(case, options, ui, infer=options.preset != "full")
    matrix = Matrix(
        preset=options.preset,
        backends=options.backends,
        axes=tuple(map(parse_axis, options.axes)),
        cross=options.cross,
        accelerator=case.load(ENVIRONMENT).accelerator is not None,
        cheap=on_program,
    )
    named = [str(value) for axis in matrix.axes if axis.name == "backend" for value in axis.values]
    check_names(case, [*matrix.backends, *named], [axis.name for axis in matrix.axes if axis.is_setting])
    recipe = cells.recipe()
    return Work(matrix, recipe, matrix.cells(recipe), cells)


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
        overridden = () if own_backend else ("backend",)
        plans.append(CellPlan(name, cell.recipe, overridden=overridden, axes=cell.changed))
    again = OnScript(case, options, ui).run(plans)
    notes = []
    for one, cell in zip(again, [*passing[-1:], failing], strict=True):
        if one.same != cell.same:
            notes.append(
                f"The script and the program disagree on {cell.recipe.backend}: "
                f"{word(one)} on the script, {word(cell)} on the program."
            )
    return [*cells, *again], tuple(notes)
