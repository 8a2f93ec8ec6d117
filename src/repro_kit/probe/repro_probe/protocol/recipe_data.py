"""A recipe as data: how a program is compiled and run (repro_kit/model/recipe.py documents the fields)."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

Backward = Literal["none", "sum", "randn"]
GradMode = Literal["enabled", "no_grad", "inference_mode"]


class AutocastData(TypedDict, total=False):
    """The autocast region around the forward call."""

    device: str
    dtype: str
    cache_enabled: bool


class GroupData(TypedDict, total=False):
    """The process group that a program's collectives name."""

    backend: str
    size: int
    rank: int
    subgroups: list[list[int]]
    others: list[int]


class RecipeData(TypedDict):
    """All fields of a recipe (repro_kit/model/recipe.py documents them)."""

    backend: str
    mode: str | None
    options: dict[str, Any]
    dynamic: bool | None
    fullgraph: bool
    backward: Backward
    grad_mode: GradMode
    autocast: AutocastData | None
    contexts: list[str]
    group: GroupData | None
    compiled_autograd: bool
    seed: int
    threads: int | None
    memory: int | None
    default_dtype: str | None
    graph_caches: bool
    warm_caches: bool
    fallback_random: bool
    config: dict[str, Any]
    env: dict[str, str]
    check: bool
    validation: bool
    growth: float | None
    rtol: float | None
    atol: float | None


#: The values of the fields that the autocast region of a RECIPE leaves out.
AUTOCAST_DEFAULTS: AutocastData = {"device": "cpu", "dtype": "bfloat16", "cache_enabled": True}

#: The backend of torch.distributed in which every collective is made up by one process, from its own values.
FAKE = "fake"

#: The values of the fields that the process group of a RECIPE leaves out. Its size is always written.
GROUP_DEFAULTS: GroupData = {"backend": FAKE, "rank": 0, "subgroups": [], "others": []}

#: The values of the fields that a program's RECIPE leaves out.
RECIPE_DEFAULTS: RecipeData = {
    "backend": "inductor",
    "mode": None,
    "options": {},
    "dynamic": None,
    "fullgraph": False,
    "backward": "none",
    "grad_mode": "enabled",
    "autocast": None,
    "contexts": [],
    "group": None,
    "compiled_autograd": False,
    "seed": 0,
    "threads": None,
    "memory": None,
    "default_dtype": None,
    "graph_caches": True,
    "warm_caches": False,
    "fallback_random": False,
    "config": {},
    "env": {},
    "check": True,
    "validation": False,
    "growth": None,
    "rtol": None,
    "atol": None,
}
