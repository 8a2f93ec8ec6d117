"""Find the first difference of two runs in the digests of their calls (probe/repro_probe/calls/state_digest.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import isclose, isnan
from typing import Any, Literal

from repro_kit.model.failure.failure import Difference

_RTOL = 1e-3
_MISSING = object()


@dataclass(frozen=True)
class DifferingCall:
    """The first call after which two runs differ: in what it returned, or only in the Python state that it left."""

    call: int  # counted from 1
    function: str
    state: Difference | None = None  # None: its result differs

    @property
    def what(self) -> Literal["result", "state"]:
        """What differs."""
        return "result" if self.state is None else "state"

    def __str__(self) -> str:
        if self.state is None:
            return f"call {self.call} of compiled functions ({self.function}) returns another result than in eager"
        name = self.state.where.removesuffix(_after(self.call))
        return (
            f"call {self.call} of compiled functions ({self.function}) returns what it returns in eager, but leaves"
            f" another state: {name} ({self.state.eager} in eager, {self.state.compiled} when compiled)"
        )


def first_differing_call(eager: Sequence[Any], compiled: Sequence[Any]) -> DifferingCall | None:
    """The first call whose result or state differs; None when the runs agree or make different calls.

    A call is [function, arguments before, result, state after].
    """
    for number, (eager_call, compiled_call) in enumerate(zip(eager, compiled, strict=False), start=1):
        if eager_call[0] != compiled_call[0] or not _alike(eager_call[1], compiled_call[1]):
            return None
        if not _alike(eager_call[2], compiled_call[2]):
            return DifferingCall(number, eager_call[0])
        shared = {name: state for name, state in eager_call[3].items() if name in compiled_call[3]}
        difference = state_difference(shared, {name: compiled_call[3][name] for name in shared}, number)
        if difference is not None:
            return DifferingCall(number, eager_call[0], difference)
    return None


def state_difference(eager: Any, compiled: Any, call: int) -> Difference | None:
    """The first difference of two states after call number `call`: the names that lead to it, and both values in words.

    Numbers are shown as they are. What else the user holds may be private: of a text only its length is shown.
    """
    if _alike(eager, compiled):
        return None
    names: list[str] = []
    while isinstance(eager, dict) and isinstance(compiled, dict):
        name = next((name for name in eager if name not in compiled or not _alike(eager[name], compiled[name])), None)
        if name is None:
            break
        names.append(name)
        eager, compiled = eager[name], compiled.get(name, _MISSING)
    where, of = ".".join(names) + _after(call), ""
    if _is_list(eager) and _is_list(compiled) and eager[0] == compiled[0]:
        at = next((at for at in range(1, len(eager)) if not _alike(eager[at : at + 1], compiled[at : at + 1])), 0)
        if at:
            of = f" as item {at - 1} of {eager[0]}"
            eager, compiled = eager[at], compiled[at]
    return Difference.of_state(where, f"{_shown(eager)}{of}", f"{_shown(compiled)}{of}")


def _after(call: int) -> str:
    return f" after call {call}"


def _is_list(value: Any) -> bool:
    """Whether `value` is the digest of a list: its length, and its first items."""
    return isinstance(value, list) and bool(value) and type(value[0]) is int


def _shown(value: Any) -> str:
    match value:
        case str():
            return f"a text of {_count(len(value), 'character')}"
        case dict():
            return f"an object with {_count(len(value), 'entry', 'entries')}"
        case ["tensor", str(dtype), list(shape), *sums]:
            size = f", sum of sizes {sums[0]:.6g}" if sums else ""
            return f"a tensor of {dtype.removeprefix('torch.')}{shape}{size}"
        case [int(length), *_]:
            return _count(length, "item")
    return "nothing" if value is _MISSING else repr(value)


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def _alike(first: Any, second: Any) -> bool:
    """Whether two digests are equal, up to the rounding of their numbers."""
    if isinstance(first, float) and isinstance(second, float):
        return isclose(first, second, rel_tol=_RTOL, abs_tol=_RTOL) or (isnan(first) and isnan(second))
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(_alike(first[name], second[name]) for name in first)
    if isinstance(first, list) and isinstance(second, list):
        return all(_alike(a, b) for a, b in zip_longest(first, second, fillvalue=_MISSING))
    return bool(first == second)
