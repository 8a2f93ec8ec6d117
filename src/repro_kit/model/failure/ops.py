"""The operator that a failure names."""

from __future__ import annotations

import re

#: Most specific first: the operator that a lowering, an interpreter or a dispatcher names as the current one; any
#: overload; a generated kernel, whose name lists the operators fused in it.
_PATTERNS = (
    re.compile(r"^\s*target: (?P<op>[\w.]+)", re.MULTILINE),
    re.compile(r"While executing %\S+ : .*?target=(?P<op>[\w.:]+)\]", re.DOTALL),
    re.compile(r"FX node with fake tensors: call_\w+ (?:<(?:built-in )?(?:function|method) )?(?P<op>[\w.:]+)"),
    re.compile(r"Could not run '(?P<op>\w+::\w+(?:\.\w+)?)'"),
    re.compile(r"\b(?:torch\.ops\.)?(?P<op>(?:aten|prims|inductor|higher_order|_?c10d\w*)\.\w+(?:\.[A-Za-z_]\w*)?)"),
    re.compile(r"\b(?P<op>(?:aten|prims|quantized|mkldnn)::\w+(?:\.\w+)?)"),
    re.compile(r"\b(?P<op>(?:cpp_fused|(?:triton|mps)_\w{3}_fused)_\w+)"),
)
_KERNEL = re.compile(r"^(?:cpp_fused|(?:triton|mps)_\w{3}_fused)_")


_EXPLICIT = 4  # these first patterns match anywhere; the others only at the beginning, before values are listed
_BEGINNING = 600


def op_in(message: str) -> str | None:
    """The operator in `message` (``aten.relu.default``, ``torch.relu``), else a kernel (``cpp_fused_relu_0``)."""
    for number, pattern in enumerate(_PATTERNS):
        match = pattern.search(message if number < _EXPLICIT else message[:_BEGINNING])
        if match:
            return match["op"].replace("::", ".").removeprefix("torch.ops.")
    return None


def is_kernel(op: str) -> bool:
    """Whether `op` is a generated kernel: its name hints at operators, but is none."""
    return bool(_KERNEL.match(op))


def same_op(first: str | None, second: str | None) -> bool:
    """Whether two names may mean one operator. Overloads and in-place forms are equal; None equals any operator."""
    return first is None or second is None or _packet(first) == _packet(second)


def _packet(op: str) -> str:
    parts = op.split(".")
    return ".".join(parts[:2]).rstrip("_") if parts[0] in ("aten", "prims") else op.rstrip("_")
