"""Narrow: from the failing cell to graph, subsystem, operator and settings, as a chain of evidence."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from repro_kit.model.ablation.cell import Cell
from repro_kit.model.ablation.evidence import STEPS, Chain, Link, Side, Step, Untried, in_one_line
from repro_kit.model.ablation.layer import first_failing, passing_before
from repro_kit.model.failure.failure import Kind
from repro_kit.model.failure.signature import Signature
from repro_kit.model.recipe import Recipe
from repro_kit.model.run_outcome import RunOutcome
from repro_kit.session.options import AblateOptions
from repro_kit.stages.ablate.cells.base import Cells
from repro_kit.stages.ablate.narrow.experiments import OVERRIDABLE, Experiments, Found, not_taken
from repro_kit.stages.ablate.narrow.failing_graph import which_graph
from repro_kit.stages.ablate.narrow.flips import flips, needs
from repro_kit.stages.ablate.narrow.subsystems import subsystem_and_op
from repro_kit.ui import Ui

#: The approximate number of runs of a step.
_RUNS = {"graph": 6, "subsystem": 12, "flips": 25, "needs": 4}
_AFFORDABLE = {
    "auto": 300.0,
    None: 60.0,
}  # most seconds of a step that the user did not name; None: in a longer pipeline
_CHEAP: tuple[Step, ...] = ("graph", "subsystem", "op", "needs")


def steps_of(options: AblateOptions) -> tuple[Step, ...]:
    """The steps that the options ask for, in order."""
    if options.narrow in (None, "auto"):
        return STEPS[1:] if options.narrow else _CHEAP
    return tuple(step for step in STEPS[1:] if step in (options.narrow or "").split(","))


def narrow(
    runner: Cells, cells: Sequence[Cell], recipe: Recipe, target: Signature, steps: Sequence[Step], ui: Ui
) -> Chain:
    """The chain of evidence for the cell that names the layer. `recipe`: of the subject."""
    started = time.monotonic()
    cell = deciding(cells, recipe)
    if cell is None:
        why = "no cell of the matrix fails like the subject"
        return Chain(runner.subject, untried=(Untried("backend", why),))
    experiments = Experiments(runner, cell, target)
    found = [Found([_backend(cells, cell, recipe)])]
    capabilities = experiments.runner.capabilities() if {"subsystem", "op", "flips"} & set(steps) else {}
    take: dict[Step, Callable[[], Found]] = {
        "graph": lambda: which_graph(experiments, ui),
        "subsystem": lambda: subsystem_and_op(experiments, capabilities.get("subsystems"), ui, op="op" in steps),
        "flips": lambda: flips(experiments, capabilities.get("settings") or (), ui),
        "needs": lambda: needs(experiments, ui),
    }
    if "op" in steps:  # the operator needs the subsystem
        steps = [step for step in STEPS if step in {*steps, "subsystem"}]
    for step in [step for step in take if step in steps]:
        why = _too_long(runner, step)
        found.append(not_taken(step, why) if why else take[step]())
    return Chain(
        runner.subject,
        tuple(link for each in found for link in each.links),
        tuple(untried for each in found for untried in each.untried),
        tuple(flip for each in found for flip in each.flips),
        next((each.needs for each in found if each.needs is not None), None),
        runs=experiments.runs,
        seconds=round(time.monotonic() - started, 1),
    )


def _too_long(runner: Cells, step: Step) -> str:
    """Why a step that the user did not name takes too long; "" if it does not. A step may run the script many times."""
    if runner.options.narrow is None and runner.target is not None and runner.target.kind is Kind.COMPILE_GROWTH:
        return f"each run makes a dozen compiles; to run this step, use repro-kit ablate --narrow {step}"
    seconds = _RUNS[step] * runner.usual() / max(1, runner.options.jobs)
    if seconds <= _AFFORDABLE.get(runner.options.narrow, math.inf):
        return ""
    return f"about {_RUNS[step]} runs of {runner.usual():.0f} s; to run this step, use repro-kit ablate --narrow {step}"


def deciding(cells: Sequence[Cell], recipe: Recipe) -> Cell | None:
    """The cell that names the layer; else the first failing cell whose changes an experiment can repeat."""
    failing = (
        cell
        for cell in cells
        if cell.compiled and cell.same and not cell.setup and set(cell.changed) <= set(OVERRIDABLE)
    )
    return first_failing(cells, recipe) or next(failing, None)


def _backend(cells: Sequence[Cell], cell: Cell, recipe: Recipe) -> Link:
    """The first link of the chain, from the cells of the matrix."""
    name = cell.recipe.backend
    plain = (each for each in cells if each.is_baseline and each.outcome is RunOutcome.PASSES)
    passing = passing_before(cells, recipe, name) or next(plain, None)
    bad = Side(f"backend {name!r}", "fails as observed", cell.repeat)
    if passing is None:
        return Link("backend", name, f"Backend {name!r} fails.", bad=bad)
    passing_words = f"backend {passing.recipe.backend!r}" if passing.compiled else passing.name
    good_side = Side(passing_words, "passes", passing.repeat)
    return Link("backend", name, f"Backend {name!r} fails, {passing_words} passes.", good_side, bad)


def show(chain: Chain, ui: Ui) -> None:
    """Print the chain, one line for each link."""
    for link in chain.links[1:]:
        ui.note(f"{'also: ' if link.beside else '→ '}{link.sentence}")
    for untried in chain.untried:
        ui.note(f"no {untried.step} named: {untried.why}")
    if len(chain.links) > 1:
        ui.note(f"Chain of evidence: {in_one_line(chain)} ({chain.runs} runs, {chain.seconds:.0f} s)")
