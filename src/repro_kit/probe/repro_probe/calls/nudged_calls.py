"""Run compiled callables with the results of their operators nudged: the script shows what rounding does to it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from repro_probe.judge.rounding import Nudge

_inside = threading.local()
_SEED = 0


def nudged(compiled: Any, direction: float) -> Any:
    """Return `compiled`, whose outermost calls run with nudged results. A module stays the same object."""
    if not callable(compiled) or isinstance(compiled, type):
        return compiled
    if hasattr(compiled, "forward"):
        compiled.forward = _nudging(compiled.forward, direction)
        return compiled
    return _nudging(compiled, direction)


def _nudging(run: Callable[..., Any], direction: float) -> Callable[..., Any]:
    @functools.wraps(run)
    def call(*arguments: Any, **named: Any) -> Any:
        if getattr(_inside, "flag", False):
            return run(*arguments, **named)
        _inside.flag = True
        try:
            with Nudge(_SEED, direction):
                return run(*arguments, **named)
        finally:
            _inside.flag = False

    return call
