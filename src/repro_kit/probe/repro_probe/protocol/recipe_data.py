"""A recipe as data (repro_kit/recipe.py documents the fields), and the names that settings and entries have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

EXPORT = "export"  # torch.export.export(…, strict=False)
EXPORT_STRICT = "export-strict"  # torch.export.export(…, strict=True): Dynamo traces
EXPORT_DRAFT = "export-draft"  # torch.export.draft_export(…)
EXPORT_DECOMPOSED = "export-decomposed"  # ExportedProgram.run_decompositions()
AOT_INDUCTOR = "aot-inductor"  # torch._inductor.aoti_compile_and_package(…), loaded again
PRECOMPILE = "precompile"  # torch.compiler.precompile.capture(…), loaded again

#: The calls that people write for them.
CALLS = {
    EXPORT: "torch.export.export(…, strict=False)",
    EXPORT_STRICT: "torch.export.export(…, strict=True)",
    EXPORT_DRAFT: "torch.export.draft_export(…)",
    EXPORT_DECOMPOSED: "ExportedProgram.run_decompositions(…)",
    AOT_INDUCTOR: "AOTInductor (torch._inductor.aoti_compile_and_package, aot_compile)",
    PRECOMPILE: "torch.compiler.precompile (capture, load)",
}

#: In the order in which the layer at fault is looked for.
EXPORTS = (EXPORT, EXPORT_STRICT, EXPORT_DRAFT, EXPORT_DECOMPOSED)
PACKAGED = (AOT_INDUCTOR, PRECOMPILE)  # Inductor's code goes into files, and is loaded again
ENTRIES = (*EXPORTS, *PACKAGED)


#: The config modules of torch, by the short name that a setting's full name begins with: ``inductor.cpp.simdlen``.
CONFIG_MODULES: dict[str, str] = {
    "inductor": "torch._inductor.config",
    "dynamo": "torch._dynamo.config",
    "functorch": "torch._functorch.config",
    "compiler": "torch.compiler.config",
    "shapes": "torch.fx.experimental._config",
}

#: Settings of torch and their values; a value is a Python literal.
Config = Mapping[str, Any]


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
    """All fields of a recipe (repro_kit/recipe.py documents them)."""

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
