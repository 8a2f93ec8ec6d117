"""The frame that raised an exception, where the exception may come from a check of results."""

from __future__ import annotations

from types import FrameType, TracebackType

_COMPILER = ("torch._dynamo", "torch._inductor", "torch._functorch", "torch._subclasses", "torch.fx")


def raising_frame(trace: TracebackType | None) -> tuple[FrameType, int] | None:
    """Return the innermost frame of `trace` and its line; None for a frame of the compiler, which checks no results.

    The files of the compiler are long, and to parse one takes as long as to compile a small function.
    """
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return None
    module = str(trace.tb_frame.f_globals.get("__name__", ""))
    in_compiler = any(module == name or module.startswith(f"{name}.") for name in _COMPILER)
    return None if in_compiler else (trace.tb_frame, trace.tb_lineno)
