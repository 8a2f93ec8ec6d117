"""Exceptions and differences as data."""

from __future__ import annotations

from typing import TypedDict


class FrameData(TypedDict):
    """One frame of a traceback."""

    file: str
    line: int
    function: str
    code: str


class LinkData(TypedDict):
    """One exception of a chain."""

    type: str
    message: str
    frames: list[FrameData]


class DifferenceBase(TypedDict):
    """What every difference between eager and compiled has."""

    kind: str
    where: str
    max_abs: float
    max_rel: float
    fraction: float
    detail: str


class DifferenceData(DifferenceBase, total=False):
    """A difference between eager and compiled."""

    exact: bool  # of integers or booleans


class ComparisonData(TypedDict, total=False):
    """What a second look at a difference says."""

    difference: DifferenceData | None
    also: list[DifferenceData]
    tolerance: tuple[float, float] | None
    note: str
    fallback_random: bool
