"""Run compiled callables with the results of their operators nudged: the script shows what rounding does to it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from repro_probe.calls.outermost_calls import OutermostCalls
from repro_probe.judge.rounding import Nudge

_outermost = OutermostCalls()


def nudged(compiled: Any, direction: float) -> Any:
    """Return `compiled`, whose outermost calls run with nudged results. A module stays the same object.

    The sign of `direction` is that of the nudges, and its size tells which random numbers they are.
    """

    def make(run: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        with Nudge(int(abs(direction)) - 1, math.copysign(1.0, direction)):
            return run(*arguments, **named)

    return compiled if not callable(compiled) or isinstance(compiled, type) else _outermost.made_by(make, compiled)
