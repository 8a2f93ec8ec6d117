"""The orders of a run: what the probe does inside the user's command (docs/explanation/overview.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from .config_modules import Config

PREFIX = "REPRO_PROBE_"  # of every variable that is the probe's
ORDERS_PATH, ORDERS_TOKEN = PREFIX + "ORDERS", PREFIX + "TOKEN"

RunMode = Literal["observe", "capture", "override"]
Measure = Literal["time", "memory", "accuracy"]


class FunctionData(TypedDict):
    """A function of the user's, as its code object names it."""

    name: str
    file: str
    line: int


class Switch(TypedDict, total=False):
    """Which applications of a subsystem of the compiler are off; they count from 0. Empty: all are only noted."""

    backend: str
    subsystem: str
    last: int  # applications after this number are off; what TORCH_BISECT_MAX does
    without: list[int]
    only: list[int]


class Override(TypedDict, total=False):
    """What mode ``override`` changes and measures. A field that is absent stays as the script has it."""

    backend: str
    mode: str | None
    dynamic: bool | None
    fullgraph: bool
    grad: bool  # grad mode to start with
    setup: str  # Python code to run once torch is imported
    config: Config
    defaults: list[str]  # settings that stay at their defaults, whatever the script sets
    functions: Mapping[str, Sequence[str]]  # import paths that are added to settings that are sets of functions
    switch: Switch
    eager_graphs: str  # graphs that eager runs, by the number of their frame: ``3`` or ``>=3``
    eager: bool  # compile nothing
    disable: list[FunctionData]  # functions that are left to eager
    measure: Sequence[Measure]
    witness: bool  # write down what compiled calls return and leave
    timeline: int | None  # time all calls, with this seed; None: no seed is set
    record: bool  # record the graphs as mode ``capture`` does
    limit: int  # bytes of tensor values that are recorded of one process; for mode ``capture`` as well


class ProbeOptions(Override, total=False):
    """The options of a run in any mode."""

    deadline: float  # seconds since the epoch at which the stack of the main thread is written down


class Orders(TypedDict):
    """The file of orders."""

    token: str
    mode: RunMode
    directory: str
    options: ProbeOptions


#: The types of the fields of the orders that the probe needs.
ORDERS_TYPES: dict[str, type] = {"mode": str, "directory": str, "options": dict}
