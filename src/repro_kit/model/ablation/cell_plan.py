"""The plan of a cell that is still to be run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from repro_kit.model.recipe import Recipe


@dataclass(frozen=True)
class CellPlan:
    """The plan of one cell. On a script, only the fields in `overridden` are changed, from outside the process."""

    name: str
    recipe: Recipe
    compiled: bool = True
    overridden: tuple[str, ...] = ()  # fields of the recipe that differ from the subject's own
    no_effect: str = ""
    axes: Mapping[str, object] = field(default_factory=dict)  # axis -> value, by the user's name of the axis
    setup: str = ""  # Python code to run before anything is compiled
