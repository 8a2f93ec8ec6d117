"""The command that repeats an experiment by hand, for reports."""

from __future__ import annotations

import shlex

from repro_kit.model.recipe import LADDER, Recipe
from repro_kit.probe.repro_probe.protocol.orders import Switch
from repro_kit.runner.subject_start import command, command_with
from repro_kit.stages.ablate.narrow.experiment_runner import OVERRIDABLE, ExperimentRunner, Variation


def repeat_command(runner: ExperimentRunner, variation: Variation) -> str:
    """A shell command that repeats the experiment; "" if there is none."""
    recipe = runner.cell.recipe
    env = {"TORCH_BISECT_BACKEND": recipe.backend} if recipe.backend in LADDER else {}
    imports = code = ""
    if variation.eager:
        env = {"TORCH_COMPILE_OVERRIDE_BACKENDS": f"{variation.eager}:eager", **env}
    if variation.switch and "last" in variation.switch:
        env["TORCH_BISECT_SUBSYSTEM"] = variation.switch["subsystem"]
        env["TORCH_BISECT_MAX"] = str(variation.switch["last"])
    elif variation.switch:
        imports, code = "itertools, torch._inductor.compiler_bisector", _switch_by_hand(variation.switch)
    plain = not (variation.config or code)
    words = command(runner.subject) if plain else command_with(runner.subject, variation.config, imports, code)
    if not words:
        return ""
    unset = [name for name in variation.unset if "." not in name]
    first = ["env", *(f"-u {name}" for name in unset)] if unset else []
    first += [f"{name}={shlex.quote(value)}" for name, value in env.items()]
    return " ".join([*first, shlex.join(words)]) + _remark(variation, recipe, runner.cells.recipe())


def _remark(variation: Variation, recipe: Recipe, own: Recipe) -> str:
    """A comment for the end of the command, with the changes that the command itself cannot make."""
    remarks = [f"{name} not set" for name in variation.unset if "." in name]
    for name in OVERRIDABLE[1:]:
        value = getattr(recipe, name)
        remarks += [f"torch.compile(…, {name}={value!r})"] if value != getattr(own, name) else []
    return f"  # with {' and '.join(remarks)}" if remarks else ""


def _switch_by_hand(switch: Switch) -> str:
    """Python statements that switch applications off as `probe/repro_probe/change/subsystem_switches.py` does."""
    part, numbers, word = switch["subsystem"], switch.get("only", switch.get("without")), ""
    word = "not in" if "only" in switch else "in"
    return (
        "b = torch._inductor.compiler_bisector.CompilerBisector; b.bisection_enabled = True; n = itertools.count(); "
        f"b.disable_subsystem = staticmethod(lambda k, s, d=None: (k, s) == {(switch['backend'], part)!r}"
        f" and next(n) {word} {list(numbers or ())!r})"
    )
