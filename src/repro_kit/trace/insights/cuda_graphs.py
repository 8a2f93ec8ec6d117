"""Compiled code that CUDA graphs should have run, and did not, with torch's reason.

Source: ``cudagraph_skip_reason`` of the compilation metrics (torch/_inductor/cudagraph_utils.py,
`log_cudagraph_skip_and_bump_counter`): ``skipping cudagraphs due to mutated inputs (1 instances). Found from :`` and a
stack.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from repro_kit.model.failure.failure import Frame
from repro_kit.trace.places import CompileRef

_PREFIX = "skipping cudagraphs due to "
_STACK = re.compile(r"\.?\s*Found from ?:")
_FRAME = re.compile(r'File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>\S+)(?:\n\s*(?P<code>\S.*))?')


@dataclass(frozen=True)
class SkippedCudaGraphs:
    """A compile, why CUDA graphs do not run its code, and the user's line behind that, where torch names one."""

    ref: CompileRef
    reason: str
    where: Frame | None = None


def skipped(ref: CompileRef, message: str) -> SkippedCudaGraphs:
    """What torch's message says."""
    head, *rest = _STACK.split(message, maxsplit=1)
    reason = " ".join(head.strip().removeprefix(_PREFIX).split())
    found = list(_FRAME.finditer(rest[0])) if rest else []
    if not found:
        return SkippedCudaGraphs(ref, reason)
    last = found[-1]
    return SkippedCudaGraphs(
        ref, reason, Frame(last["file"], int(last["line"]), last["function"], (last["code"] or "").strip())
    )
