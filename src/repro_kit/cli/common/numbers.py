"""The numbers that options take."""

from __future__ import annotations

import math
from typing import Any

import click

_MOST = 10**9  # seconds, runs, GiB: larger values would overflow a clock


class Positive(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions of click
    """A finite number above 0, at most 1e9. (click's own range prints its largest number in every help text.)"""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """`value` as a number; the command ends with one sentence where it is none."""
        number: float = click.FLOAT.convert(value, param, ctx)
        if not math.isfinite(number) or not 0 < number <= _MOST:
            self.fail(f"{value!r} is not a number above 0, and at most {_MOST}.", param, ctx)
        return number


class Count(click.ParamType):  # type: ignore[type-arg]
    """A whole number from `least` to 1e9."""

    name = "count"

    def __init__(self, least: int = 1) -> None:
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """`value` as a whole number; the command ends with one sentence where it is none."""
        number: int = click.INT.convert(value, param, ctx)
        if not self.least <= number <= _MOST:
            self.fail(f"{value!r} is not a whole number from {self.least} to {_MOST}.", param, ctx)
        return number


POSITIVE = Positive()
COUNT = Count()
INDEX = Count(0)
