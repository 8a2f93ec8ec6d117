"""A cell that is to be run, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from repro_kit.model.recipe import Recipe


@dataclass(frozen=True)
class CellPlan:
    """A cell to be run. On a script, only what is `overridden` of the recipe is changed, from outside."""

    name: str
    recipe: Recipe
    compiled: bool = True
    overridden: tuple[str, ...] = ()  # fields of the recipe that differ from the subject's own
    no_effect: str = ""
    axes: Mapping[str, object] = field(default_factory=dict)  # what is changed, as the user calls it
    setup: str = ""  # Python code to run before anything is compiled
