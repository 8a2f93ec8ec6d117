"""What is said of a run in which nothing failed: whether anything was compiled, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

#: Variables that switch torch.compile off (torch/_dynamo/config.py).
_OFF = ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")


def sentences(ended: str, graphs: int, measured: str, words: Sequence[str], why_nothing: str) -> str:
    """The last words; the first line stands by itself.

    `ended`: how the run ended. `graphs`: how many were compiled. `measured`: the symptom that the user asked for, in
    words; empty if none was asked for. `words`: what was given to collect. `why_nothing`: why nothing was compiled.
    """
    result = [f"{measured}."] if measured else []
    if not graphs:
        return "\n".join([f"Nothing failed: {ended}. Nothing was compiled: {why_nothing}.", *result])
    made = "1 graph was" if graphs == 1 else f"{graphs} graphs were"
    compare = f"To compare every compiled call with eager: repro-kit collect --check accuracy {shlex.join(words)}"
    return "\n".join([f"Nothing failed: {ended}, and {made} compiled.", *(result or [compare])])


def why_nothing(env: Mapping[str, str], *, saw_torch: bool) -> str:
    """Why a run has compiled nothing. `saw_torch`: whether a process of it was seen to import torch."""
    off = next((name for name in _OFF if env.get(name) == "1"), None)
    if off is not None:
        return f"{off}=1 switches torch.compile off; unset it, and run the same command again"
    if not saw_torch:
        return "torch was not imported where repro-kit could see it (python -I, -E and -S hide it)"
    return "no compiled function was called (torch.compile(f) compiles when f is first called)"
