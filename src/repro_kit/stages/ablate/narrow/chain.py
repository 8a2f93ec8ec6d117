"""Narrow: from the failing cell to graph, subsystem, operator and settings, as a chain of evidence."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from repro_kit.case.stage_results import ENVIRONMENT
from repro_kit.diagnosis.axes import FlipCandidate, candidates, groups
from repro_kit.diagnosis.cell import Cell
from repro_kit.diagnosis.evidence import STEPS, Chain, Flip, Link, Side, Step, Untried, in_one_line
from repro_kit.diagnosis.layer import first_failing, passing_before
from repro_kit.failure.signature import RunOutcome, Signature
from repro_kit.options.stages import AblateOptions
from repro_kit.probe.repro_probe.protocol.queries import SettingData
from repro_kit.recipe import Recipe
from repro_kit.reduce.boundary import curing, needed
from repro_kit.stages.ablate.cells.base import Cells
from repro_kit.stages.ablate.narrow.experiments import OVERRIDABLE, Experiments, Found, OutOfTime, Variation, not_taken
from repro_kit.stages.ablate.narrow.failing_part import subsystem_and_op, which_graph
from repro_kit.ui import Ui

_GROUP = 24  # settings that one run flips together
_BUDGET = 120  # most runs of one search

#: Prefixes of variables that change how torch compiles; variables with a word of `_PLACES` only name paths.
_VARIABLES = ("TORCH", "PYTORCH", "OMP_", "MKL_", "TRITON_")
_PLACES = ("TRACE", "LOGS", "CACHE", "DIR", "HOME", "BISECT", "OVERRIDE")


def flips(experiments: Experiments, settings: Sequence[SettingData], ui: Ui) -> Found:
    """Find the settings that make the subject pass with one flipped value. `settings`: those that torch lists."""
    env = experiments.runner.cells.case.load(ENVIRONMENT)
    tried = candidates(settings, experiments.runner.cell.recipe.backend, bool(env.accelerator))
    own_settings = {**experiments.runner.cell.recipe.config, **experiments.runner.users_config}
    tried = [candidate for candidate in tried if own_settings.get(candidate.name) != candidate.value]
    if not tried:
        return not_taken("flips", "this torch lists no settings that could be flipped")
    before = experiments.spent()

    def change(numbers: Sequence[int]) -> Variation:
        return Variation(config={tried[at].name: tried[at].value for at in numbers})

    def ask(sets: Sequence[Sequence[int]]) -> list[RunOutcome]:
        ui.progress(f"looking for settings with which it passes: {sum(map(len, sets))} of {len(tried)}")
        return experiments.outcomes([change(set_) for set_ in sets])

    numbers, whole = curing(groups(tried, _GROUP), ask, _BUDGET)
    working = [_flip(experiments, tried[at], change([at])) for at in numbers]
    working.sort(key=lambda candidate: bool(candidate.limits))
    untried = [] if whole else [Untried("flips", f"the search stopped after {_BUDGET} runs")]
    if not working:
        why = f"none of {len(tried)} settings alone makes the subject pass with its other value"
        return Found(untried=[*untried, Untried("flips", why)])
    first = working[0]
    alone = f"{'each ' if len(working) > 1 else ''}alone; {len(tried)} were tried"
    claim = f"The failure is gone with {_listed(working)} ({alone})."
    good = experiments.side(_assigned(first.name, first.value), Variation(config={first.name: first.value}))
    bad = experiments.side(f"{_assigned(first.name, first.before)}, unchanged", Variation())
    name = f"gone with {_assigned(first.name, first.value)}"
    link = experiments.costed(Link("flips", name, claim, good, bad, bool(first.limits)), before)
    return Found([link], untried, working)


def _flip(experiments: Experiments, candidate: FlipCandidate, change: Variation) -> Flip:
    return Flip(candidate.name, candidate.value, candidate.before, experiments.repeat(change), candidate.limits)


def _listed(working: Sequence[Flip]) -> str:
    words = [_assigned(flip.name, flip.value) + (f" (which {flip.limits})" if flip.limits else "") for flip in working]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _assigned(name: str, value: object) -> str:
    return f"{name}={value!r}"


def needs(experiments: Experiments, ui: Ui) -> Found:
    """Find which of the user's own settings the failure needs; it may need none."""
    own_settings = _own(experiments)
    if not own_settings:
        return Found(needs=())
    ui.progress(f"checking which of your {len(own_settings)} settings the failure needs")
    before = experiments.spent()
    names = list(own_settings)

    def change(kept_numbers: Sequence[int]) -> Variation:
        return Variation(unset=tuple(name for at, name in enumerate(names) if at not in kept_numbers))

    def ask(sets: Sequence[Sequence[int]]) -> list[RunOutcome]:
        return experiments.outcomes([change(kept_numbers) for kept_numbers in sets])

    needed_numbers, sure = needed(range(len(names)), ask, experiments.jobs, _BUDGET)
    needed_names = tuple(names[at] for at in needed_numbers)
    bad = experiments.side("the other settings unset", change(needed_numbers))
    untried = [] if sure else [Untried("needs", f"the search stopped after {_BUDGET} runs")]
    if not needed_names:
        claim = f"The failure needs none of your own settings ({', '.join(names)})."
        link = Link("needs", "no settings of your own", claim, None, bad, beside=True)
        return Found([experiments.costed(link, before)], untried, needs=())
    words = ", ".join(own_settings[name] for name in needed_names)
    claim = f"Of your own settings, the failure needs {words}" + (
        f", of {len(names)}." if len(names) > len(needed_names) else "."
    )
    good = experiments.side("these settings unset too", change([]))
    link = experiments.costed(Link("needs", f"needs {words}", claim, good, bad), before)
    return Found([link], untried, needs=needed_names)


def _own(experiments: Experiments) -> dict[str, str]:
    """The user's changed settings and variables: the assignment as text, by name."""
    settings = {name: _assigned(name, value) for name, value in experiments.runner.users_config.items()}
    for name, value in experiments.runner.users_variables.items():
        if name.startswith(_VARIABLES) and not any(word in name for word in _PLACES):
            settings[name] = f"{name}={value}"
    return settings


#: The approximate number of runs of a step.
_RUNS = {"graph": 6, "subsystem": 12, "flips": 25, "needs": 4}
#: Most seconds of a step on a whole subject that the user did not name; None: in a longer pipeline.
_AFFORDABLE = {"auto": 300.0, None: 60.0}
#: Seconds for steps on a reduced subject that the user did not name, whatever one run takes: of each; None: of all.
_ALLOWED = 300.0
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
    limited = runner.is_reduced and runner.options.narrow in _AFFORDABLE
    for step in [step for step in take if step in steps]:
        if limited and (runner.options.narrow or len(found) == 1):
            experiments.allow(_ALLOWED)
        why = "" if limited else _too_long(runner, step)
        try:
            found.append(not_taken(step, why) if why else take[step]())
        except OutOfTime as over:
            found.append(not_taken(step, f"{over} of about {_RUNS[step]} that it takes; {_by_hand(step)}"))
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
    seconds = _RUNS[step] * runner.usual() / max(1, runner.options.jobs)
    if seconds <= _AFFORDABLE.get(runner.options.narrow, math.inf):
        return ""
    return f"about {_RUNS[step]} runs of {runner.usual():.0f} s; {_by_hand(step)}"


def _by_hand(step: str) -> str:
    return f"to run this step, use repro-kit ablate --narrow {step}"


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
