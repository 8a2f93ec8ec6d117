"""What a cell changes of a script, as a request to the probe and as code that a person would write."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any, cast

from repro_kit.model.recipe import LADDER
from repro_kit.model.torch_config import assigned
from repro_kit.probe.repro_probe.protocol.entries import ENTRIES
from repro_kit.probe.repro_probe.protocol.orders import Override

if TYPE_CHECKING:
    from repro_kit.model.ablation.cell_plan import CellPlan


def overrides(plan: CellPlan) -> Override:
    """The changes to a script that the probe is asked for."""
    changed: Override = {}
    arguments: dict[str, Any] = {}
    config: dict[str, Any] = {}
    for name in plan.overridden:
        if name == "grad_mode":
            changed["grad"] = plan.recipe.grad_mode == "enabled"
        elif name == "graph_caches":
            config |= dict.fromkeys(
                ("inductor.fx_graph_cache", "functorch.enable_autograd_cache"), plan.recipe.graph_caches
            )
        elif name == "config":
            config |= plan.recipe.config
        elif name != "env":
            arguments[name] = getattr(plan.recipe, name)
    changed = {**cast(Override, arguments), **changed}
    if config:
        changed["config"] = config
    if plan.setup:
        changed["setup"] = plan.setup
    return changed


def setup_words(plan: CellPlan) -> str:
    """A comment for the command that repeats a cell by hand, when the cell has a setup; "" otherwise."""
    return "  # and with the cell's `setup` after `import torch`" if plan.setup else ""


def repeat_by_hand(command: str, plan: CellPlan, own_backend: str) -> str:
    """The shell command that repeats a cell by hand: `command` with the changes of `plan`.

    `own_backend`: of the subject. An entry takes no backend from the environment.
    """
    changed = overrides(plan)
    if not plan.compiled:
        command = f"TORCH_COMPILE_DISABLE=1 {command}"
    elif plan.overridden == ("backend",) and plan.recipe.backend in LADDER and own_backend not in ENTRIES:
        command = f"TORCH_BISECT_BACKEND={plan.recipe.backend} {command}"
    elif changed.keys() - {"setup"}:
        command += f"  # with {_by_hand(changed)}"
    if "env" in plan.overridden:
        command = " ".join([*(f"{name}={shlex.quote(value)}" for name, value in plan.recipe.env.items()), command])
    return command + setup_words(plan)


def _by_hand(changed: Override) -> str:
    """`changed` (from `overrides`) as the lines a person would write."""
    arguments = [f"{name}={value!r}" for name, value in changed.items() if name not in ("grad", "config", "setup")]
    parts = [f"torch.compile(…, {', '.join(arguments)})"] if arguments else []
    if "grad" in changed:
        parts.append(f"torch.set_grad_enabled({changed['grad']})")
    parts += [assigned(name, value) for name, value in changed.get("config", {}).items()]
    return " and ".join(parts)


def slug(name: str) -> str:
    """`name` as the name of a directory: other characters than word characters, ".", "=" and "-" become "-"."""
    return re.sub(r"[^\w.=-]+", "-", name)
