"""Keep torch's structured trace from running code of the program.

Where a trace is written, torch describes the metadata of each graph with ``repr``, tensors too
(torch/_functorch/_aot_autograd/graph_capture.py). The ``repr`` of a tensor of another class calls the handlers of that
class. They may count, and an operator that depends on values fails the compilation, since there are none yet. What
such a class keeps beside its tensors (torch/_subclasses/meta_utils.py) is described too, and may be any object.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from typing import Any

from repro_probe.common.imports import when_imported

_DEPTH = 8  # of the metadata of a graph
_SCALARS = (bool, int, float, complex, str, bytes, type(None))
_PLAIN = ("Tensor", "Parameter", "Buffer", "FakeTensor")  # classes of torch whose description runs nothing of a program


def run_no_code_of_the_program() -> None:
    """Let torch describe nothing for the trace whose text is the program's."""
    when_imported("torchgen.utils", _leave_out_tensors)
    when_imported("torch._subclasses.meta_utils", _name_objects)


def _name_objects(meta_utils: Any) -> None:
    """Name the objects of the program by their classes. `meta_utils` uses ``repr`` for the trace alone."""
    meta_utils.__dict__["repr"] = _named


def _named(value: Any) -> str:
    is_torchs = type(value).__module__.partition(".")[0] == "torch"
    return repr(value) if isinstance(value, _SCALARS) or is_torchs else f"<{type(value).__qualname__}>"


def _leave_out_tensors(torchgen: Any) -> None:
    """Leave what holds tensors of other classes out of the trace. `torchgen` is torchgen.utils."""
    describe = getattr(torchgen, "dataclass_repr", None)
    if describe is None or hasattr(describe, "__wrapped__"):
        return

    @functools.wraps(describe)
    def dataclass_repr(described: Any, *arguments: Any, **named: Any) -> str:
        found = _other_class(described, _DEPTH)
        if found:
            return f"{type(described).__name__}: left out, since it holds a tensor of class {found}"
        return str(describe(described, *arguments, **named))

    for module in list(sys.modules.values()):  # some have taken the function by its name
        if getattr(module, "__dict__", {}).get("dataclass_repr") is describe:
            module.__dict__["dataclass_repr"] = dataclass_repr


def _other_class(value: Any, depth: int) -> str:
    """Return the name of a tensor's class within `value` that is not one of torch's plain ones; "" without any."""
    import torch

    if isinstance(value, torch.Tensor):
        kind = type(value)
        is_plain = kind.__name__ in _PLAIN and kind.__module__.partition(".")[0] == "torch"
        return "" if is_plain else kind.__name__
    if depth == 0:
        return ""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    elif isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, (list, tuple, set)):
        parts = list(value)
    else:
        return ""
    return next((name for name in (_other_class(part, depth - 1) for part in parts) if name), "")
