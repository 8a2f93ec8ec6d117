"""Two runs of a script whose compiled functions were witnessed: where they part first."""

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
    """Where the calls part; None when they do not, or when other functions are called, or with other arguments.

    A call is [function, arguments before, result, state after].
    """
    for number, (one, other) in enumerate(zip(eager, compiled, strict=False), start=1):
        if one[0] != other[0] or not _alike(one[1], other[1]):
            return None
        if not _alike(one[2], other[2]):
            return Parting("result", number, one[0])
        known = {name: state for name, state in one[3].items() if name in other[3]}
        if not _alike(known, {name: other[3][name] for name in known}):
            return Parting("state", number, one[0], _path(known, other[3]))
    return None


def _path(one: Any, other: Any) -> str:
    """The names that lead to what differs: ``Helper.touch.state``."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return ""
    name = next((name for name in one if name not in other or not _alike(one[name], other[name])), "")
    return f"{name}.{_path(one.get(name), other.get(name))}".rstrip(".")


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, rel_tol=_RTOL, abs_tol=_RTOL) or (isnan(one) and isnan(other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return all(_alike(a, b) for a, b in zip_longest(one, other, fillvalue=_MISSING))
    return bool(one == other)


_MISSING = object()
