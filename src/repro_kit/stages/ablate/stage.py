"""Ablate: vary how the subject is compiled, and name the layer at fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.stage_results import ABLATION, CAPTURE, ENVIRONMENT, OBSERVATION, Capture
from repro_kit.diagnosis.axes import parse_axis, varied
from repro_kit.diagnosis.causes import diagnose
from repro_kit.diagnosis.cell import Ablation, Cell, CellPlan, word
from repro_kit.diagnosis.contrasts import contrasts
from repro_kit.diagnosis.culprit import SCRIPT_CODE, of_users_pass
from repro_kit.diagnosis.layer import IN_EAGER, Diagnosis, first_failing, is_decided, passing_before
from repro_kit.errors import UsageError
from repro_kit.failure.failure import Layer, Status
from repro_kit.options.stages import AblateOptions
from repro_kit.recipe import Recipe
from repro_kit.reduce.flaky import MEASURE, RUNS_BEFORE_DETERMINISTIC, Tally
from repro_kit.stages.ablate import workarounds
from repro_kit.stages.ablate.cells.base import Cells
from repro_kit.stages.ablate.cells.program_cells import OnProgram
from repro_kit.stages.ablate.cells.script_cells import OnReducedScript, OnScript, reduced_script
from repro_kit.stages.ablate.matrix import Matrix, check_names, modes_of, rank_axes
from repro_kit.stages.ablate.narrow import chain as narrow
from repro_kit.stages.ablate.special_contrasts import special_contrasts, with_graphs_interpreted
from repro_kit.stages.ablate.table import plan_rows, plan_sentence
from repro_kit.subject import users_environment
from repro_kit.subject.subject_check import fails_in_eager, is_program_alone
from repro_kit.ui import Ui

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


_NOT_ON_SCRIPT = (
    "The cells were run on the graph, not on the script; `repro-kit ablate --on both CASE` repeats the deciding cells "
    "on the script."
)
_ON_REDUCED = (
    "The cells were run on the reduced script; `repro-kit ablate --on script CASE` runs them on the whole one."
)


@dataclass(frozen=True)
class Work:
    """The work of an ablation: the matrix, the subject's own recipe, the first plans, and the runner of the cells."""

    matrix: Matrix
    recipe: Recipe
    plans: Sequence[CellPlan]
    cells: Cells


@dataclass(frozen=True)
class Judged:
    """The result of the matrix: its cells, how often the subject fails, and the diagnosis."""

    work: Work
    cells: list[Cell]
    tally: Tally
    diagnosis: Diagnosis


def run(case: Case, options: AblateOptions, ui: Ui) -> None:
    """Write `ablation.json`. A subject that fails without the compiler has no cells."""
    if fails_in_eager(case):
        case.store(ABLATION, Ablation("script", layer=Layer.USER, sentence=IN_EAGER))
        ui.done(IN_EAGER)
        return
    earlier_warnings = case.load(OBSERVATION).warnings if case.holds(OBSERVATION) else ()
    for sentence in users_environment.warnings_of_leftovers():
        if sentence not in earlier_warnings:
            ui.warn(sentence)
    judged = judge(case, options, ui)
    confirmation = Confirmation()
    if isinstance(judged.work.cells, OnProgram) and judged.work.cells.which == "reduced":
        ui.progress("trying the same on the graph as it was captured")
        target = judged.work.cells.target
        captured = OnProgram(case, options, ui, target, captured=True)
        confirmation = on_captured(captured, judged.cells, judged.work.recipe)
        if confirmation.disagrees:
            ui.warn("The captured graph does not behave like the smaller one, so it is tried in its place.")
            judged = judge(case, options, ui, captured=True)
    confirmations = [confirmation, *_on_script(case, options, ui, judged)]
    ablation = _ablation(case, judged, confirmations)
    case.store(ABLATION, ablation)
    ablation = _narrowed(case, options, ui, ablation, judged)
    if options.workarounds and ablation.layer is not Layer.USER:
        ablation = replace(ablation, workarounds=workarounds.find(case, options, ui, ablation))
        case.store(ABLATION, ablation)
    for confirmation in confirmations:
        for note in confirmation.notes:
            ui.warn(note)
    ui.done(ablation.sentence)


def judge(case: Case, options: AblateOptions, ui: Ui, *, captured: bool = False) -> Judged:
    """Run the cells of the matrix, and the cells that depend on their results."""
    work = planned(case, options, ui, captured=captured)
    ui.progress(plan_sentence(work.plans, work.cells))
    ui.detail(plan_sentence(work.plans, work.cells))
    ui.detail("\n  ".join(plan_rows(work.plans, work.cells)))
    tally = rate(work.cells, work.plans, work.recipe) if options.repeat == 1 else Tally()
    if tally.flaky:
        ui.warn(rate_sentence(tally))
        options = replace(options, repeat=repeats(tally))
        work = planned(case, options, ui, captured=captured)
        ui.note(f"{plan_sentence(work.plans, work.cells)} --repeat N runs each N times, --stop-early leaves some out.")
    until = (lambda cells: is_decided(cells, work.recipe)) if options.stop_early else None
    cells = work.cells.run(work.plans, until)
    if not options.stop_early:
        cells += work.cells.run(work.matrix.after(work.recipe, cells))
    cells = with_graphs_interpreted(work.cells, cells, work.recipe)
    cells += work.cells.run(contrasts(cells, work.recipe, work.cells.texts()))
    cells += special_contrasts(work.cells, cells, work.recipe)
    return Judged(work, cells, tally, diagnose(cells, work.recipe, work.cells.own_settings()))


def _on_script(case: Case, options: AblateOptions, ui: Ui, judged: Judged) -> list[Confirmation]:
    """Run the deciding cells of a program on the script too, if the user asked for it."""
    is_wanted = options.on == "both" and not is_program_alone(case)
    if not is_wanted or judged.work.cells.subject != "program" or case.file.signature is None:
        return []
    ui.progress("trying the same on the script")
    return [on_script(OnScript(case, options, ui), judged.cells, judged.work.recipe)]


def _ablation(case: Case, judged: Judged, confirmations: Sequence[Confirmation]) -> Ablation:
    cells, target = judged.work.cells, judged.work.cells.target
    alone = cells.subject == "program" and not any(
        cell.subject == "script" for confirmation in confirmations for cell in confirmation.cells
    )
    notes = [rate_sentence(judged.tally), *(note for confirmation in confirmations for note in confirmation.notes)]
    notes += [_ON_REDUCED] if isinstance(cells, OnReducedScript) else []
    notes += [_NOT_ON_SCRIPT] if alone and not is_program_alone(case) else []
    return Ablation(
        cells.subject,
        (*judged.cells, *(cell for confirmation in confirmations for cell in confirmation.cells)),
        judged.diagnosis.layer,
        judged.diagnosis.sentence,
        tuple(filter(None, notes)),
        cause=judged.diagnosis.cause,
        recipe=judged.work.recipe,
        torch=case.load(ENVIRONMENT).torch or "",
        failure=target.summary() if target else "",
        failed=judged.tally.failed,
        runs=judged.tally.runs,
        program=cells.which if isinstance(cells, OnProgram) else "",
    )


def _narrowed(case: Case, options: AblateOptions, ui: Ui, ablation: Ablation, judged: Judged) -> Ablation:
    """`ablation` with its chain of evidence, if there are steps to run and a layer to start from.

    The chain may end at a pass of the user's own, which is the layer at fault then.
    """
    steps, target = narrow.steps_of(options), judged.work.cells.target
    if not steps or target is None or ablation.layer in (None, Layer.USER):
        return ablation
    chain = narrow.narrow(judged.work.cells, judged.cells, judged.work.recipe, target, steps, ui)
    ablation = replace(ablation, chain=chain)
    users = of_users_pass(chain) if ablation.cause != SCRIPT_CODE else None  # that sentence names what it saw running
    if users is not None:
        ablation = replace(ablation, layer=users.layer, cause=users.cause, sentence=users.sentence)
    case.store(ABLATION, ablation)
    return ablation


def planned(case: Case, options: AblateOptions, ui: Ui, *, captured: bool = False) -> Work:
    """Plan the ablation. Raises UsageError for impossible options. `captured`: use the captured program."""
    capture = case.current(CAPTURE) or Capture("script")
    if options.on == "program" and capture.subject != "program":
        raise UsageError(f"There is no program to ablate on ({capture.note or 'none was captured'}); use --on script.")
    script = reduced_script(case) if options.on == "auto" else None  # what the bundle holds, if there is one
    on_program = capture.subject == "program" and options.on != "script" and script is None
    cells: Cells
    if on_program:
        cells = OnProgram(case, options, ui, capture.signature, captured=captured)
    else:
        cells = _script_cells(case, options, ui, script)
    slow = cells.target is not None and cells.target.kind.policy.slow
    several = not (on_program or slow or options.axes) and options.preset != "quick"
    of_ranks = rank_axes(case, cells.texts()) if several else ()
    matrix = Matrix(
        preset="quick" if slow and options.preset == "standard" else options.preset,
        backends=options.backends,
        axes=(*map(parse_axis, options.axes), *of_ranks),
        cross=options.cross,
        accelerator=case.load(ENVIRONMENT).accelerator is not None,
        cheap=on_program,
        known_modes=modes_of(case),
    )
    named = [str(value) for axis in matrix.axes if axis.name == "backend" for value in axis.values]
    check_names(case, [*matrix.backends, *named], [axis.name for axis in matrix.axes if axis.is_setting])
    recipe = cells.recipe()
    return Work(matrix, recipe, matrix.cells(recipe), cells)


def _script_cells(case: Case, options: AblateOptions, ui: Ui, script: Path | None) -> OnScript:
    """Cells on the reduced `script`, if there is one; else on the user's."""
    infer = options.preset != "full"
    if script is None:
        return OnScript(case, options, ui, infer=infer)
    return OnReducedScript(case, options, ui, script, infer=infer)
