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
    """The fields of every difference between eager and compiled."""

    kind: str
    where: str
    max_abs: float
    max_rel: float
    fraction: float
    detail: str


class DifferenceData(DifferenceBase, total=False):
    """A difference between eager and compiled."""

    exact: bool  # the values are integers or booleans


class ComparisonData(TypedDict, total=False):
    """The result of judging a difference again, with rounding, chance and ties in mind."""

    difference: DifferenceData | None
    also: list[DifferenceData]
    tolerance: tuple[float, float] | None
    note: str
    fallback_random: bool
