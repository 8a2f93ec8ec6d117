"""Compare digests of Python objects (probe/repro_probe/calls/state_digest.py)."""

from __future__ import annotations

from itertools import zip_longest
from math import isclose, isnan
from typing import Any

_RTOL = 1e-3
_LONGEST = 80  # characters of a digest in words


def first_difference(eager: Any, compiled: Any) -> str:
    """The names that lead to the first difference: ``Helper.touch.state``."""
    if not (isinstance(eager, dict) and isinstance(compiled, dict)):
        return ""
    name = next((name for name in eager if name not in compiled or not alike(eager[name], compiled[name])), "")
    return f"{name}.{first_difference(eager.get(name), compiled.get(name))}".rstrip(".")


def differing_values(eager: Any, compiled: Any) -> str:
    """The values at the first difference, in words: ``eager 3, compiled 0``."""
    while isinstance(eager, dict) and isinstance(compiled, dict):
        name = next((name for name in eager if name not in compiled or not alike(eager[name], compiled[name])), None)
        if name is None:
            break
        if name not in compiled:
            return f"eager {_short(eager[name])}, compiled nothing"
        eager, compiled = eager[name], compiled[name]
    return f"eager {_short(eager)}, compiled {_short(compiled)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


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
