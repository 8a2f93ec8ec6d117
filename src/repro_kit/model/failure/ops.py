"""The operator that a failure names."""

from __future__ import annotations

import re

#: Most telling first: the operator a lowering, an interpreter or a dispatcher says it was working on; any overload; a
#: generated kernel, whose name lists the operators fused in it.
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


_EXPLICIT = 4  # patterns that may stand anywhere; the others count in the beginning only, before values are listed
_BEGINNING = 600


def op_in(message: str) -> str | None:
    """The operator `message` names: ``aten.relu.default``, ``torch.relu``, else a kernel (``cpp_fused_relu_0``)."""
    for number, pattern in enumerate(_PATTERNS):
        found = pattern.search(message if number < _EXPLICIT else message[:_BEGINNING])
        if found:
            return found["op"].replace("::", ".").removeprefix("torch.ops.")
    return None


def is_kernel(op: str) -> bool:
    """Whether `op` is a generated kernel: a hint at operators, not one of them."""
    return bool(_KERNEL.match(op))


def same_op(one: str | None, other: str | None) -> bool:
    """Whether two names may mean one operator: overloads and in-place forms are one, an unknown operator is any."""
    return one is None or other is None or _packet(one) == _packet(other)


def _packet(op: str) -> str:
    parts = op.split(".")
    return ".".join(parts[:2]).rstrip("_") if parts[0] in ("aten", "prims") else op.rstrip("_")
