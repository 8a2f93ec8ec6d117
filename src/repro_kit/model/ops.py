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


def op_in(message: str) -> str | None:
    """The operator `message` names: ``aten.relu.default``, ``torch.relu``, else a kernel (``cpp_fused_relu_0``)."""
    for pattern in _PATTERNS:
        found = pattern.search(message)
        if found:
            return found["op"].replace("::", ".").removeprefix("torch.ops.")
    return None


def is_kernel(op: str) -> bool:
    """Whether `op` is a generated kernel: a hint at operators, not one of them."""
    return bool(_KERNEL.match(op))
