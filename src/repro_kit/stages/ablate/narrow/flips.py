"""Which setting of torch makes the failure go away, and which of the user's own it needs."""

from __future__ import annotations

from collections.abc import Sequence

from repro_kit.case.handles import ENVIRONMENT
from repro_kit.model.ablation.evidence import Flip, Link, Untried
from repro_kit.model.ablation.flippable_settings import FlipCandidate, candidates, groups
from repro_kit.model.run_outcome import RunOutcome
from repro_kit.probe.repro_probe.protocol.queries import SettingData
from repro_kit.reduce.first import curing, needed
from repro_kit.stages.ablate.narrow.experiment_runner import Variation
from repro_kit.stages.ablate.narrow.experiments import Experiments
from repro_kit.ui import Ui

_GROUP = 24  # settings that are flipped together
_BUDGET = 120  # runs

#: Variables by which a user sets how torch compiles; not those that only tell it where to write.
_VARIABLES = ("TORCH", "PYTORCH", "OMP_", "MKL_", "TRITON_")
_PLACES = ("TRACE", "LOGS", "CACHE", "DIR", "HOME", "BISECT", "OVERRIDE")


def flips(
    experiments: Experiments, settings: Sequence[SettingData], ui: Ui
) -> tuple[list[Link], list[Flip], list[Untried]]:
    """Settings whose other value alone makes it pass, each seen to; `settings` as torch told them."""
    env = experiments.runner.cells.case.load(ENVIRONMENT)
    tried = candidates(settings, experiments.runner.cell.recipe.backend, bool(env.accelerator))
    own = {**experiments.runner.cell.recipe.config, **experiments.runner.users_config}
    tried = [it for it in tried if own.get(it.name) != it.value]
    if not tried:
        return [], [], [Untried("flips", "this torch tells no settings that could be flipped")]
    before = experiments.spent()

    def change(numbers: Sequence[int]) -> Variation:
        return Variation(config={tried[at].name: tried[at].value for at in numbers})

    def ask(sets: Sequence[Sequence[int]]) -> list[RunOutcome]:
        ui.progress(f"narrowing: flipping {sum(map(len, sets))} of {len(tried)} settings, in {len(sets)} runs")
        return [experiment.outcome for experiment in experiments.ask([change(set_) for set_ in sets])]

    numbers, whole = curing(groups(tried, _GROUP), ask, _BUDGET)
    found = [_flip(experiments, tried[at], change([at])) for at in numbers]
    found.sort(key=lambda it: bool(it.limits))
    untried = [] if whole else [Untried("flips", f"the search was ended after {_BUDGET} runs")]
    if not found:
        why = f"none of {len(tried)} settings makes it pass by its other value alone"
        return [], [], [*untried, Untried("flips", why)]
    first = found[0]
    claim = f"It is gone with {_listed(found)} ({'each ' if len(found) > 1 else ''}alone; {len(tried)} were tried)."
    good = experiments.side(_assigned(first.name, first.value), Variation(config={first.name: first.value}))
    bad = experiments.side(f"{_assigned(first.name, first.before)}, as it was", Variation())
    name = f"gone with {_assigned(first.name, first.value)}"
    return [experiments.costed(Link("flips", name, claim, good, bad, bool(first.limits)), before)], found, untried


def _flip(experiments: Experiments, it: FlipCandidate, change: Variation) -> Flip:
    return Flip(it.name, it.value, it.before, experiments.repeat(change), it.limits)


def _listed(found: Sequence[Flip]) -> str:
    words = [_assigned(it.name, it.value) + (f" (which {it.limits})" if it.limits else "") for it in found]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _assigned(name: str, value: object) -> str:
    return f"{name}={value!r}"


def needs(experiments: Experiments, ui: Ui) -> tuple[list[Link], tuple[str, ...] | None, list[Untried]]:
    """Which of the user's own settings the failure needs; none of them at all is an answer too."""
    own = _own(experiments)
    if not own:
        return [], (), []
    ui.progress(f"narrowing: which of your {len(own)} settings it needs")
    before = experiments.spent()
    names = list(own)

    def change(kept: Sequence[int]) -> Variation:
        return Variation(unset=tuple(name for at, name in enumerate(names) if at not in kept))

    def ask(sets: Sequence[Sequence[int]]) -> list[RunOutcome]:
        return [experiment.outcome for experiment in experiments.ask([change(kept) for kept in sets])]

    kept, sure = needed(range(len(names)), ask, experiments.jobs, _BUDGET)
    told = tuple(names[at] for at in kept)
    bad = experiments.side("the others unset", change(kept))
    untried = [] if sure else [Untried("needs", f"the search was ended after {_BUDGET} runs")]
    if not told:
        claim = f"It needs none of your own settings ({', '.join(names)})."
        return (
            [experiments.costed(Link("needs", "no settings of your own", claim, None, bad, beside=True), before)],
            told,
            untried,
        )
    words = ", ".join(own[name] for name in told)
    claim = f"Of your own settings it needs {words}" + (f", of {len(names)}." if len(names) > len(told) else ".")
    good = experiments.side("these unset too", change([]))
    return [experiments.costed(Link("needs", f"needs {words}", claim, good, bad), before)], told, untried


def _own(experiments: Experiments) -> dict[str, str]:
    """The user's settings that are not at their defaults, and variables: name -> as people write it."""
    found = {name: _assigned(name, value) for name, value in experiments.runner.users_config.items()}
    for name, value in experiments.runner.users_variables.items():
        if name.startswith(_VARIABLES) and not any(word in name for word in _PLACES):
            found[name] = f"{name}={value}"
    return found
