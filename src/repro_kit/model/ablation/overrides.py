"""What a plan changes of a script: as the probe is asked to, and as a person would."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from repro_kit.model.torch_config import assigned
from repro_kit.probe.repro_probe.protocol.orders import Override

if TYPE_CHECKING:
    from repro_kit.model.ablation.cell_plan import CellPlan


def overrides(it: CellPlan) -> Override:
    """What the probe is asked to change of a script for the cell."""
    changed: Override = {}
    arguments: dict[str, Any] = {}
    config: dict[str, Any] = {}
    for name in it.overridden:
        if name == "grad_mode":
            changed["grad"] = it.recipe.grad_mode == "enabled"
        elif name == "graph_caches":
            config |= dict.fromkeys(
                ("inductor.fx_graph_cache", "functorch.enable_autograd_cache"), it.recipe.graph_caches
            )
        elif name == "config":
            config |= it.recipe.config
        elif name != "env":
            arguments[name] = getattr(it.recipe, name)
    changed = {**cast(Override, arguments), **changed}
    if config:
        changed["config"] = config
    if it.setup:
        changed["setup"] = it.setup
    return changed


def setup_words(it: CellPlan) -> str:
    """What a command to repeat a cell by hand says of its setup."""
    return "  # and with the cell's `setup` after `import torch`" if it.setup else ""


def by_hand(changed: Override) -> str:
    """`overrides` in words."""
    arguments = [f"{name}={value!r}" for name, value in changed.items() if name not in ("grad", "config", "setup")]
    parts = [f"torch.compile(…, {', '.join(arguments)})"] if arguments else []
    if "grad" in changed:
        parts.append(f"torch.set_grad_enabled({changed['grad']})")
    parts += [assigned(name, value) for name, value in changed.get("config", {}).items()]
    return " and ".join(parts)


def slug(name: str) -> str:
    """`name` as that of a directory."""
    return re.sub(r"[^\w.=-]+", "-", name)
