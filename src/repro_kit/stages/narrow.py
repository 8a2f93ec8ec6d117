"""Narrow: from the cell that fails to the subsystem of the compiler and the operator, as a chain of evidence."""

from __future__ import annotations

import time
from collections.abc import Sequence

from repro_kit.model.cell import Cell
from repro_kit.model.evidence import STEPS, Chain, Link, Side, Step, Untried, in_one_line
from repro_kit.model.failure import Status
from repro_kit.model.layer import first_failing, is_own
from repro_kit.model.recipe import LADDER, Recipe
from repro_kit.model.signature import Signature
from repro_kit.stages.cells import Cells
from repro_kit.stages.narrow_subsystem import subsystem_and_op
from repro_kit.stages.options import Options
from repro_kit.stages.trials import Change, Trials
from repro_kit.ui import Ui


def steps_of(options: Options) -> tuple[Step, ...]:
    """The steps that are asked for, in order."""
    if options.narrow is None:
        return STEPS[1:]
    return tuple(step for step in STEPS[1:] if step in options.narrow.split(","))


def show(chain: Chain, ui: Ui) -> None:
    """The chain, a line a link."""
    for link in chain.links[1:]:
        ui.note(f"{'also: ' if link.beside else '→ '}{link.claim}")
    for it in chain.untried:
        ui.note(f"not tried: {it.step}: {it.why}")
    if len(chain.links) > 1:
        ui.note(f"Chain of evidence: {in_one_line(chain)} ({chain.runs} runs, {chain.seconds:.0f} s)")


def narrow(
    runner: Cells,
    cells: Sequence[Cell],
    recipe: Recipe,
    target: Signature,
    steps: Sequence[Step],
    ui: Ui,
) -> Chain:
    """The chain for the cell that names the layer; `recipe` is the subject's own."""
    started = time.monotonic()
    cell = deciding(cells, recipe)
    if cell is None:
        return Chain(
            runner.subject, untried=(Untried("backend", "no cell of the matrix fails in the way the subject did"),)
        )
    links = [_backend(cells, cell, recipe)]
    trials = Trials(runner, cell, target)
    untried: list[Untried] = []
    ui.progress("narrowing: once more, and what each subsystem applies")
    (base,) = trials.ask([Change()])
    if not base.fails:
        why = f"run again under the probe, without the graph cache, it {base.outcome}: it is not narrowed further"
        untried.append(Untried("subsystem", why))
    elif "subsystem" in steps or "op" in steps:
        found, missing = subsystem_and_op(trials, base, ui, op="op" in steps)
        links += found
        untried += missing
    return Chain(
        runner.subject, tuple(links), tuple(untried), runs=trials.runs, seconds=round(time.monotonic() - started, 1)
    )


def deciding(cells: Sequence[Cell], recipe: Recipe) -> Cell | None:
    """The cell that names the layer; else the first that fails alike, whatever it differs in."""
    return first_failing(cells, recipe) or next((it for it in cells if it.compiled and it.same and not it.setup), None)


def _backend(cells: Sequence[Cell], cell: Cell, recipe: Recipe) -> Link:
    """The first link: what the matrix has shown already."""
    own = {it.recipe.backend: it for it in cells if is_own(it, recipe) and it.verdict.status is Status.PASS}
    name = cell.recipe.backend
    before = LADDER[: LADDER.index(name)] if name in LADDER else LADDER
    good = next((own[it] for it in reversed(before) if it in own), None)
    plain = next((it for it in cells if not it.compiled and it.verdict.status is Status.PASS), None)
    passing = good or plain
    bad = Side(f"backend {name!r}", "fails as observed", cell.repeat)
    if passing is None:
        return Link("backend", name, f"Backend {name!r} fails.", bad=bad)
    what = f"backend {passing.recipe.backend!r}" if passing.compiled else passing.name
    good_side = Side(what, "passes", passing.repeat)
    return Link("backend", name, f"Backend {name!r} fails, {what} passes.", good_side, bad)
