"""Compare digests of Python objects (probe/repro_probe/calls/state_digest.py)."""

from __future__ import annotations

from itertools import zip_longest
from math import isclose, isnan
from typing import Any

_RTOL = 1e-3


def first_difference(eager: Any, compiled: Any) -> str:
    """The names that lead to the first difference: ``Helper.touch.state``."""
    if not (isinstance(eager, dict) and isinstance(compiled, dict)):
        return ""
    name = next((name for name in eager if name not in compiled or not alike(eager[name], compiled[name])), "")
    return f"{name}.{first_difference(eager.get(name), compiled.get(name))}".rstrip(".")


def differing_values(eager: Any, compiled: Any) -> tuple[str, str]:
    """What both sides have at the first difference, in words: ``6 items`` and ``0 items``.

    Numbers are shown. Other contents of the user's objects may be private: only the length of a text is shown.
    """
    while isinstance(eager, dict) and isinstance(compiled, dict):
        name = next((name for name in eager if name not in compiled or not alike(eager[name], compiled[name])), None)
        if name is None:
            break
        if name not in compiled:
            return _shown(eager[name]), "nothing"
        eager, compiled = eager[name], compiled[name]
    if _is_list(eager) and _is_list(compiled) and eager[0] == compiled[0]:
        at = next((at for at in range(1, len(eager)) if not alike(eager[at : at + 1], compiled[at : at + 1])), 0)
        if at:
            of = f" as item {at - 1} of {eager[0]}"
            return f"{_shown(eager[at])}{of}", f"{_shown(compiled[at])}{of}"
    return _shown(eager), _shown(compiled)


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
    return repr(value)


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def alike(first: Any, second: Any) -> bool:
    """Whether two digests are equal, up to the rounding of their numbers."""
    if isinstance(first, float) and isinstance(second, float):
        return isclose(first, second, rel_tol=_RTOL, abs_tol=_RTOL) or (isnan(first) and isnan(second))
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(alike(first[name], second[name]) for name in first)
    if isinstance(first, list) and isinstance(second, list):
        return all(alike(a, b) for a, b in zip_longest(first, second, fillvalue=_MISSING))
    return bool(first == second)


_MISSING = object()
