"""Run compiled callables with the results of their operators nudged: the script shows what rounding does to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from repro_probe.calls.outermost_calls import OutermostCalls
from repro_probe.judge.rounding import Nudge

_outermost = OutermostCalls()
_SEED = 0


def nudged(compiled: Any, direction: float) -> Any:
    """Return `compiled`, whose outermost calls run with nudged results. A module stays the same object."""

    def make(run: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        with Nudge(_SEED, direction):
            return run(*arguments, **named)

    return compiled if not callable(compiled) or isinstance(compiled, type) else _outermost.made_by(make, compiled)
