"""Exceptions, differences and signals as data."""

from __future__ import annotations

import signal
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


#: Why the results of a program are not defined (`ComparisonData.doubts`).
RANDOM_NUMBERS, UNINITIALISED = "it draws random numbers", "it reads uninitialised memory"
WRITE_ORDER, BAD_OFFSETS = "it writes different values to one place", "it has a jagged tensor with invalid offsets"
OVERLAP = "an operator reads elements that it has written to"
SAVED_VALUES = "hooks change what its backward has saved"
#: How a note says that eager alone gives several results, before their names.
UNSTEADY = "eager differs from itself at "
#: The places of a difference. A gradient and an argument that the program writes to are named by `outputs.Outcome`.
OUTPUT, GRADIENT, ARGUMENT, CALL = "output", "gradient", "argument", "call"
#: What a call leaves besides its results: where a difference is, and its kind.
WARNINGS, GENERATOR = "warnings", "state of random numbers"
#: Kinds of difference in what a result holds, and all kinds: from worst to mildest.
OF_CONTENT = ("structure", "shape", "dtype", "layout", "device", "nan", "value")
KINDS_OF_DIFFERENCE = (*OF_CONTENT, "alias", "requires_grad", "stride", "random", "warning")
#: How a gradient is named before its parameter, and an argument after its own name.
OF_GRADIENT, AFTER = "grad of ", " after the call"


def place_of(where: str) -> str:
    """Return the place that `where` of a difference names."""
    if where.startswith(OF_GRADIENT):
        return GRADIENT
    if where.startswith((WARNINGS, GENERATOR)):
        return CALL
    return ARGUMENT if where.endswith(AFTER) else OUTPUT


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
    index: list[int]  # of the first wrong element
    eager: str  # what eager gives there, and what the compiled program gives: a value, or a form
    compiled: str


class ErrorRowBase(TypedDict):
    """The fields of every result whose values differ."""

    where: str
    dtype: str
    elements: int
    apart: float  # share of the elements that differ by more than the tolerance
    explained: bool  # eager's own rounding explains the difference


class ErrorRow(ErrorRowBase, total=False):
    """One result whose values differ, with largest errors; None where there is nothing to hold it against."""

    gap: float  # compiled against eager
    eager: float | None  # eager against double precision
    compiled: float | None  # compiled against double precision
    nudged: float | None  # eager's runs with disturbed rounding against eager
    size: float  # the root of the mean square of eager's result


class ComparisonData(TypedDict, total=False):
    """The result of judging a difference again, with rounding, chance and ties in mind."""

    difference: DifferenceData | None
    also: list[DifferenceData]
    wrong: list[str]  # names of the results that are certainly wrong, where there is a difference
    right: list[str]  # and of those that are right by computation, and not since they show nothing
    tolerance: tuple[float, float] | None
    note: str
    fallback_random: bool
    errors: list[ErrorRow]  # the results whose values differ, where that was asked for
    rounding: bool  # eager's own rounding explains every difference
    random: bool  # the results agree once eager and compiled draw the same random numbers
    doubts: list[str]  # why the results in eager are not defined


#: A signal that programs leave alone, and that Python has no name for. None where the system has none of that kind.
STACK_SIGNAL: int | None = signal.SIGRTMAX - 7 if hasattr(signal, "SIGRTMAX") else None


def signal_name(number: int) -> str:
    """The name of signal `number`: ``SIGSEGV``; ``SIG36`` for a real-time signal, which has no name of its own."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
