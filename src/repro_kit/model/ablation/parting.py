"""Compare the witnessed calls of two runs of a script, and find the first call after which the runs differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import isclose, isnan
from typing import Any, Literal

_RTOL = 1e-3


@dataclass(frozen=True)
class Parting:
    """The first call after which two runs differ: in what it returned, or only in the Python state that it left."""

    what: Literal["result", "state"]
    call: int  # counted from 1
    function: str
    name: str = ""  # variable whose state differs

    def __str__(self) -> str:
        if self.what == "result":
            return f"call {self.call} of compiled functions ({self.function}) returns another result than in eager"
        return (
            f"call {self.call} of compiled functions ({self.function}) returns what it returns in eager,"
            f" but leaves another state: {self.name}"
        )


def parting(eager: Sequence[Any], compiled: Sequence[Any]) -> Parting | None:
    """The first call whose result or state differs; None when the runs agree or make different calls.

    A call is [function, arguments before, result, state after].
    """
    for number, (eager_call, compiled_call) in enumerate(zip(eager, compiled, strict=False), start=1):
        if eager_call[0] != compiled_call[0] or not _alike(eager_call[1], compiled_call[1]):
            return None
        if not _alike(eager_call[2], compiled_call[2]):
            return Parting("result", number, eager_call[0])
        shared_state = {name: state for name, state in eager_call[3].items() if name in compiled_call[3]}
        if not _alike(shared_state, {name: compiled_call[3][name] for name in shared_state}):
            return Parting("state", number, eager_call[0], _path(shared_state, compiled_call[3]))
    return None


def _path(eager: Any, compiled: Any) -> str:
    """The names that lead to the first difference: ``Helper.touch.state``."""
    if not (isinstance(eager, dict) and isinstance(compiled, dict)):
        return ""
    name = next((name for name in eager if name not in compiled or not _alike(eager[name], compiled[name])), "")
    return f"{name}.{_path(eager.get(name), compiled.get(name))}".rstrip(".")


def _alike(first: Any, second: Any) -> bool:
    if isinstance(first, float) and isinstance(second, float):
        return isclose(first, second, rel_tol=_RTOL, abs_tol=_RTOL) or (isnan(first) and isnan(second))
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(_alike(first[name], second[name]) for name in first)
    if isinstance(first, list) and isinstance(second, list):
        return all(_alike(a, b) for a, b in zip_longest(first, second, fillvalue=_MISSING))
    return bool(first == second)


_MISSING = object()
