"""The short names of torch's config modules, which both processes use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
