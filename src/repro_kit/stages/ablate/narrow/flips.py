"""Find the settings of torch that make the failure go away, and those of the user's that it needs."""

from __future__ import annotations

from collections.abc import Sequence

from repro_kit.case.handles import ENVIRONMENT
from repro_kit.model.ablation.evidence import Flip, Link, Untried
from repro_kit.model.ablation.flippable_settings import FlipCandidate, candidates, groups
from repro_kit.model.run_outcome import RunOutcome
from repro_kit.probe.repro_probe.protocol.queries import SettingData
from repro_kit.reduce.first import curing, needed
from repro_kit.stages.ablate.narrow.experiments import Experiments, Found, Variation, not_taken
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
