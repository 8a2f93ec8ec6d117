"""The axes of an ablation: which field of a recipe, or which setting of torch, is varied, and over which values."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from repro_kit.model.recipe import Recipe
from repro_kit.probe.repro_probe.protocol.config_modules import CONFIG_MODULES

#: Fields of a recipe that are axes, each with its default values (none for `backend`: the user names them).
FIELDS: dict[str, tuple[object, ...]] = {
    "backend": (),
    "dynamic": (None, True, False),
    "mode": ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
    "fullgraph": (True, False),
    "grad": (True, False),
    "caches": (True, False),
}
_SWITCHES = ("fullgraph", "grad", "caches")


@dataclass(frozen=True)
class Axis:
    """One axis: a name of `FIELDS`, or a setting of torch (``inductor.pattern_matcher``), with the values to try."""

    name: str
    values: tuple[object, ...]

    @property
    def is_setting(self) -> bool:
        """Whether the axis is a setting of torch rather than a field of the recipe."""
        return self.name not in FIELDS


def parse_axis(text: str) -> Axis:
    """The axis that ``NAME=VALUE,VALUE`` (or a name of `FIELDS` alone) describes. Raises ValueError for other text."""
    name, given, values = text.partition("=")
    name = name.strip()
    module, dot, rest = name.partition(".")
    if name not in FIELDS and not (dot and rest and module in CONFIG_MODULES):
        raise ValueError(
            f"{name or text!r} is not an axis: take one of {', '.join(FIELDS)}, or a setting as MODULE.NAME with "
            f"MODULE one of {', '.join(CONFIG_MODULES)}."
        )
    if not given:
        if not FIELDS.get(name):
            raise ValueError(f"Axis {name} needs values: {name}=VALUE,VALUE.")
        return Axis(name, FIELDS[name])
    return Axis(name, tuple(_checked(name, value) for value in _literals(values)))


def _literals(text: str) -> list[object]:
    """`text` as comma-separated Python literals; a part that is no literal is a string. Raises ValueError if empty."""
    try:
        values = ast.literal_eval(f"[{text}]")
    except (SyntaxError, ValueError):
        values = [_literal(part.strip()) for part in text.split(",")]
    if not values or "" in values:
        raise ValueError(f"{text!r} holds no values, or an empty one; give them as VALUE,VALUE.")
    return list(values)


def _literal(text: str) -> object:
    try:
        value: object = ast.literal_eval(text.capitalize() if text in ("true", "false", "none") else text)
    except (SyntaxError, ValueError):
        return text
    return value


def _checked(name: str, value: object) -> object:
    if name == "dynamic" and not (value is None or isinstance(value, bool)):
        raise ValueError(f"Axis dynamic takes None, True and False, not {value!r}.")
    if name in _SWITCHES and not isinstance(value, bool):
        raise ValueError(f"Axis {name} takes True and False, not {value!r}.")
    if name in ("backend", "mode") and not isinstance(value, str):
        raise ValueError(f"Axis {name} takes names, not {value!r}.")
    return value


def varied(recipe: Recipe, name: str, value: Any) -> Recipe:
    """`recipe` with axis `name` at `value`. A change of backend drops `mode` and `options`, which belong to the old."""
    match name:
        case "backend":
            return recipe if value == recipe.backend else recipe.with_(backend=value, mode=None, options={})
        case "mode":
            return recipe.with_(mode=value, options={})
        case "grad":
            without = {} if value else {"grad_mode": "no_grad", "backward": "none"}
            return recipe.with_(**({"grad_mode": "enabled"} | without))
        case "caches":
            return recipe.with_(graph_caches=value)
        case "dynamic" | "fullgraph":
            return recipe.with_(**{name: value})
        case _:
            return recipe.with_(config={**recipe.config, name: value})


def field_of(name: str) -> str:
    """The field of a recipe that axis `name` changes."""
    return {"grad": "grad_mode", "caches": "graph_caches"}.get(name, name if name in FIELDS else "config")
