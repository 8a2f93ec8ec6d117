"""Failures over a name that a program uses and nothing gives it: lost in reading it, or of another torch.

They are no failures of the code that the program was made from.
"""

from __future__ import annotations

import re

from repro_kit.model.failure.failure import ExceptionLink, Failure
from repro_kit.model.failure.frames import torch_path
from repro_kit.model.failure.tracebacks import short

_NAMES = ("NameError", "UnboundLocalError", "ImportError", "ModuleNotFoundError")
#: How torch says that it has no such operator (torch/_ops.py, c10's dispatcher, torch/library.py).
_OPERATOR = re.compile(
    r"_OpNamespace'|has no overload name|[Nn]o such operator|[Cc]ould not find (?:schema|an? operator)"
    r"|operator \S+ does not exist|Couldn't find operator"
)
_OF_LOOKUPS = (None, "torch/_ops.py", "torch/__init__.py", "torch/_classes.py")  # files: None is the program itself


def lost_name(failure: Failure | None) -> str:
    """The error, in words, if the innermost exception is over a name of the program's own; else empty."""
    if failure is None or not failure.exceptions:
        return ""
    root = failure.exceptions[-1]
    return f"{short(root.type)}: {root.message.partition(chr(10))[0]}" if _is_lost(root) else ""


def _is_lost(link: ExceptionLink) -> bool:
    here = torch_path(link.frames[-1].file) if link.frames else None
    if short(link.type) in _NAMES or _OPERATOR.search(link.message):
        return True
    return short(link.type) == "AttributeError" and here in _OF_LOOKUPS
