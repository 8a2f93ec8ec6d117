"""The orders of a run in the user's command, and what small programs in the user's interpreter are asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from .recipe_data import Config

PREFIX = "REPRO_PROBE_"  # of every environment variable of the probe
ORDERS_PATH, ORDERS_TOKEN = PREFIX + "ORDERS", PREFIX + "TOKEN"

RunMode = Literal["observe", "capture", "override"]
Measure = Literal["time", "memory", "accuracy", "validation", "state"]


class FunctionData(TypedDict):
    """A function of the user, as its code object describes it."""

    name: str
    file: str
    line: int


class Switch(TypedDict, total=False):
    """The applications of a compiler subsystem that are off, counted from 0. Empty: all stay on, and are recorded."""

    backend: str
    subsystem: str
    last: int  # applications after this number are off, as with TORCH_BISECT_MAX
    without: list[int]
    only: list[int]


class Override(TypedDict, total=False):
    """The changes and measurements of mode ``override``. What an absent field would change stays as in the script."""

    backend: str
    mode: str | None
    dynamic: bool | None
    fullgraph: bool
    grad: bool  # grad mode to start with
    setup: str  # Python code to run once torch is imported
    config: Config
    defaults: list[str]  # settings that stay at their defaults even when the script sets them
    functions: Mapping[str, Sequence[str]]  # import paths to add to settings that are sets of functions
    switch: Switch
    eager_graphs: str  # graphs to run in eager, by the number of their frame: ``3``, ``>=3``, ``0-2,>3``
    eager: bool  # compile nothing
    hidden_writes: bool  # note writes, unseen by autograd, to tensors that are saved for a backward
    disable: list[FunctionData]  # functions to run in eager
    measure: Sequence[Measure]
    compared_calls: int  # how many first calls of each compiled callable are compared with eager
    nudge: int  # nudge results of compiled functions by a rounding error: 1, -1, 2, -2 (calls.nudged); 0: by nothing
    nudged: list[str]  # the names of the compiled functions to nudge, as in the record of a call; absent: all
    witness: bool  # record the results of compiled calls, and the Python state after them
    timeline: int | None  # time all calls, with this seed; None: no seed is set
    record: bool  # record the graphs as mode ``capture`` does
    limit: int  # bytes of tensor values to record in one process; for mode ``capture`` too


class ProbeOptions(Override, total=False):
    """The options of a run in any mode."""

    deadline: float  # time to write the stack of the main thread, in seconds since the epoch


class Orders(TypedDict):
    """The file of orders."""

    token: str
    mode: RunMode
    directory: str
    options: ProbeOptions


#: The options of TORCH_LOGS that a run gets where the user has none.
LOGS = "graph_breaks,recompiles"
#: The types of the fields that the probe checks in the orders.
ORDERS_TYPES: dict[str, type] = {"mode": str, "directory": str, "options": dict}


class NamesData(TypedDict):
    """Names to look up, or the unknown ones among them: the input and output of `common/torch_environment.py`."""

    backends: list[str]
    settings: list[str]


class ValueOrderBase(TypedDict):
    """The fields of every value that `query/write_values.py` writes: the files that it reads and writes."""

    source: str
    target: str


class ValueOrder(ValueOrderBase, total=False):
    """A stored value, to be written as one on the CPU; a storage of PyTorch's minifier has the form of its tensor."""

    dtype: str
    sizes: list[int]


class WrittenValues(TypedDict):
    """The output of `query/write_values.py`."""

    written: int


class EnvironmentBase(TypedDict):
    """The fields for every interpreter. `torch` is None where torch cannot be imported."""

    python: str
    executable: str
    platform: str
    torch: str | None
    packages: dict[str, str]


class EnvironmentData(EnvironmentBase, total=False):
    """The output of `common/torch_environment.py` where nothing is asked."""

    error: str
    torch_git: str | None
    accelerator: str | None
    threads: int
    collect_env: str
