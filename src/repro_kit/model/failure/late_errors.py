"""Errors that an accelerator's runtime raises later than their cause, in any later call.

Kernels run asynchronously: torch raises the error of a kernel from the next call that asks the device
(c10/cuda/CUDAException.cpp). An output that a CUDA graph has overwritten raises when it is read
(torch/_inductor/cudagraph_trees.py). So the traceback of such an error says nothing about its cause.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from repro_kit.model.failure.failure import ExceptionLink

_KERNEL_ERROR = re.compile(
    r"\b(?:CUDA|HIP|XPU) error: (?:device-side assert|an illegal (?:memory access|instruction)|misaligned address"
    r"|unspecified launch failure|operation not supported on global/shared address space|invalid program counter"
    r"|hardware stack error|uncorrectable ECC error|the launch timed out)"
)
_OVERWRITTEN = re.compile(r"accessing tensor output of CUDAGraphs that has been overwritten")
#: What a kernel prints before its assertion ends it, once for each thread.
_ASSERTION = re.compile(r"block: \[[\d,]+\], thread: \[[\d,]+\] Assertion `(?P<text>.*)` failed")


def is_late(links: Sequence[ExceptionLink]) -> bool:
    """Whether the root cause of a chain of exceptions is raised later than its cause."""
    return bool(links) and (bool(_KERNEL_ERROR.search(links[-1].message)) or is_overwritten(links[-1].message))


def is_overwritten(message: str) -> bool:
    """Whether an output was read that a CUDA graph has overwritten since."""
    return bool(_OVERWRITTEN.search(message))


def printed_assertion(text: str) -> str:
    """What a kernel printed to `text` about the first of its assertions that failed; empty if there is none."""
    found = _ASSERTION.search(text)
    return found[0] if found else ""


def asserted(text: str) -> str:
    """The condition in what a kernel printed; empty if there is none."""
    found = _ASSERTION.search(text)
    return found["text"] if found else ""
