"""Findings: the files that the probe writes for each process of a run, in the directory that its orders name."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from .failure_data import ComparisonData, FrameData, LinkData

HELLO, GOODBYE, MEASURED, TIMELINE, WITNESS = "hello", "goodbye", "measured", "timeline", "witness"
EXCEPTION, THREAD_EXCEPTION = "exception", "thread-exception"
RANK = "rank"  # what the process does as one rank of several
EVENTS, COMPILED, LOADED, APPLIED = "events", "compiled", "loaded", "applied"  # files with a line for each event
STACK, PROBE_ERROR = "stack", "probe-error"  # texts
INPUTS = "inputs"  # the directory of stored values


def finding(name: str, process: object, ending: str = "json") -> str:
    """Return the file name of one process's finding; with ``*`` for `process`, a pattern for all processes."""
    return f"{name}-{process}.{ending}"


class Hello(TypedDict):
    """A process of the run that imported torch."""

    pid: int
    parent: int
    argv: list[str]
    executable: str
    python: str
    torch: str
    time: float  # seconds since the epoch
    rank: str | None


Doing = Literal["compiling", "collective", "python"]


class CollectiveData(TypedDict):
    """One collective that a rank began."""

    name: str
    group: str
    number: int  # of the group's collectives, from 1
    sizes: list[list[int]]
    dtypes: list[str]
    line: str  # of the user's code, ``file:line``; empty where it is unknown
    began: float  # seconds since the epoch
    done: bool


class CompileSpan(TypedDict):
    """A time in which a rank was compiling, as a watch from outside saw it, in seconds since the epoch."""

    began: float
    ended: float


class RankStateData(TypedDict):
    """What a rank did last. `line` is where its main thread was in the user's code."""

    rank: int
    size: int
    time: float
    doing: Doing
    line: str
    collectives: list[CollectiveData]
    compiles: list[CompileSpan]


class Settings(TypedDict):
    """The settings of a process that a program must have too."""

    config: dict[str, Any]
    threads: int
    memory: int | None
    default_dtype: str


class Goodbye(Settings):
    """Written by a process that ends normally."""

    pid: int
    modules: dict[str, str]  # files of the user's own modules, by name
    peak_memory: int | None


class ExceptionNature(TypedDict):
    """The nature of an exception, as far as its traceback shows."""

    machine: bool
    compares: bool
    clock: bool


class Raised(ExceptionNature):
    """An exception that ended a process or a thread. `tolerance` is stated by the check that raised it.

    `interrupted`: the frames that the signal of a timer interrupted whose handler raised it.
    """

    time: float
    exceptions: list[LinkData]
    tolerance: list[float] | None
    interrupted: list[FrameData]


class CompiledCallBase(TypedDict):
    """The fields for every callable that the script compiles."""

    name: str
    calls: int
    backward: bool


class CompiledCallData(CompiledCallBase, ComparisonData, total=False):
    """The measurements of one callable that the script compiles, with the first difference from eager."""

    rounds: list[list[float]]  # seconds of one call: [compiled, eager]
    memory: list[list[int]]  # bytes
    compared: int
    raised: str
    both: str
    lost: list[LinkData]
    problem: str
    states: list[tuple[int, dict[str, Any], dict[str, Any]]]  # number of a call, state after it in eager, and compiled


class MeasuredCalls(TypedDict):
    """The measurements of one process."""

    compiled: list[CompiledCallData]


#: Shape, dtype, sum of magnitudes (None: too large), and some elements of a tensor.
Digest = list[Any]


class TimedCallBase(TypedDict):
    """The fields for every timed call."""

    name: str
    seconds: float
    compiled: bool


class TimedCall(TimedCallBase, total=False):
    """One timed call of a compiled function; digests are None where the values could not be read."""

    result: list[Digest] | None
    inputs: list[Digest] | None


class Timeline(TypedDict):
    """The timed calls of one process."""

    rank: str | None
    started: float
    calls: list[TimedCall]
    left_out: int


#: One witnessed call: function, arguments before, result, state after.
WitnessedCall = list[Any]
