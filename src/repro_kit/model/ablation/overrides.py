"""What a plan changes of a script: as the probe is asked to, and as a person would."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from repro_kit.model.ablation.cell_plan import CellPlan


def overrides(it: CellPlan) -> dict[str, Any]:
    """What the probe is asked to change of a script for the cell."""
    changed: dict[str, Any] = {}
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
            changed[name] = getattr(it.recipe, name)
    changed |= {"config": config} if config else {}
    return changed | ({"setup": it.setup} if it.setup else {})


def setup_words(it: CellPlan) -> str:
    """What a command to repeat a cell by hand says of its setup."""
    return "  # and with the cell's `setup` after `import torch`" if it.setup else ""


def by_hand(changed: Mapping[str, Any]) -> str:
    """`overrides` in words."""
    arguments = [f"{name}={value!r}" for name, value in changed.items() if name not in ("grad", "config", "setup")]
    parts = [f"torch.compile(…, {', '.join(arguments)})"] if arguments else []
    if "grad" in changed:
        parts.append(f"torch.set_grad_enabled({changed['grad']})")
    modules = {"compiler": "torch.compiler.config", "shapes": "torch.fx.experimental._config"}
    for key, value in changed.get("config", {}).items():
        module, _, name = key.partition(".")
        parts.append(f"{modules.get(module, f'torch._{module}.config')}.{name} = {value!r}")
    return " and ".join(parts)


def slug(name: str) -> str:
    """`name` as that of a directory."""
    return re.sub(r"[^\w.=-]+", "-", name)
