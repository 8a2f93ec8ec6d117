"""The fixed parts of a program's text (docs/explanation/program-format.md)."""

from __future__ import annotations

VERSION = "1"
MARK = "# repro-kit program"

STANDARD_IMPORTS = ("import pathlib", "import torch", "from torch import device, inf, nan")
PRIMS = "torch.ops.prims."  # some of these operators are Inductor's own, and exist only after this import
PRIMS_IMPORT = "import torch._inductor.inductor_prims"

HEADER = f"""{MARK} {VERSION}
import pathlib

import torch
from torch import device, inf, nan
"""

LOAD = """def load(name):
    return torch.load(pathlib.Path(__file__).with_name("inputs") / name, weights_only=True)
"""
