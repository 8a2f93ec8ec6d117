"""Recorded graphs, and the events that happened to them."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from .failure_data import LinkData
from .findings import Settings
from .recipe_data import AutocastData, GradMode

GRAPH = "graph"  # the first part of a file name; the number of the graph follows

EventName = Literal[
    "compile-call",
    "compile-begin",
    "compile-end",
    "compile-fail",
    "call-begin",
    "call-end",
    "call-fail",
    "more-calls",
    "backward-begin",
]


class CompileSettings(TypedDict):
    """The arguments of a call of `torch.compile` that decide how a function is compiled."""

    backend: str
    mode: str | None
    dynamic: bool | None
    fullgraph: bool | None
    options: dict[str, Any] | None


class ViewData(TypedDict):
    """The tensor that a tensor is a view of."""

    made: str  # the name of autograd's `CreationMeta`, in small letters
    offset: int  # of the view within the base, in elements
    base: TensorData


class RelationData(TypedDict, total=False):
    """How a tensor is related to others, and how it was made."""

    own: str  # equal for records of the same tensor of one call
    view: ViewData
    inference: bool  # made in inference mode


class TensorData(RelationData, total=False):
    """One tensor as metadata."""

    shape: list[int]
    stride: list[int]
    offset: int  # within the stored span
    dtype: str
    device: str
    requires_grad: bool
    leaf: bool
    parameter: bool
    storage: str  # the name of the first tensor that has the same storage
    span: int | None  # elements of the stored flat span; None: stored as it is
    file: str | None
    bits: list[str]  # "conj", "neg", "zero": the stored values are not yet conjugated or negated, or there are none
    low: int | None  # of integers
    high: int | None


class InputData(TensorData, total=False):
    """One argument of a call. `kind` is always there; a tensor has the fields of `TensorData` too."""

    kind: str
    name: str
    source: str | None
    value: Any
    scalar: float | None
    symbol: str
    symbols: list[str]
    symbolic: bool
    as_tensor: bool


class EventBase(TypedDict):
    """The fields of every event. `graph` is None for a call of `torch.compile`."""

    event: EventName
    graph: int | None
    time: float


class GraphEvent(EventBase, total=False):
    """One line of events: something that happened to a graph."""

    settings: CompileSettings
    exceptions: list[LinkData]
    call: int
    inputs: list[InputData]
    uniform: bool
    problem: str


class NameData(TypedDict, total=False):
    """A global of generated code, and how to import it again."""

    module: str | None
    name: str | None
    file: str | None
    value: str | None


class BackendData(TypedDict, total=False):
    """The backend that the user chose."""

    name: str | None
    mode: str | None
    options: dict[str, Any]
    dynamic: bool | None
    file: str
    qualname: str | None


class Region(TypedDict):
    """One item of a ``with`` block around a compiled call. `names` maps each name in it to the file that defines it."""

    file: str
    expression: str
    names: dict[str, str]


class WorldData(TypedDict):
    """The process groups of `torch.distributed`, and the rank of this process. Ranks are those of the world."""

    size: int
    rank: int
    groups: dict[str, list[int]]  # the ranks of each group that this process is in, by the group's name


class GraphSettings(Settings):
    """How a graph was compiled and called."""

    fullgraph: bool
    grad_mode: GradMode
    autocast: AutocastData | None
    device: str | None
    regions: list[Region]
    switches: list[str]
    compiled_autograd: bool
    world: WorldData | None


class GraphBase(TypedDict):
    """The fields for every graph."""

    number: int
    pid: int
    compile_id: str


class KernelData(TypedDict):
    """A user's Triton kernel: where its function is, and the arguments of each configuration that it tries, as code."""

    module: str | None
    name: str | None
    file: str | None
    configs: list[dict[str, str]]


class KernelLaunchData(TypedDict):
    """A launch of a kernel. `constants`: arguments that are not in the graph, as code; None where that is not known."""

    kernel: KernelData
    constants: dict[str, str | None]


class GraphContent(TypedDict, total=False):
    """A graph as data."""

    code: str
    modules: dict[str, str]  # code of sub-graphs, by path
    names: dict[str, NameData]
    launches: dict[str, KernelLaunchData]  # by "<kernel_idx>/<constant_args_idx>"
    lines: dict[str, str]  # the user's line that each statement of `code` comes from: "/home/me/model.py:12"
    inputs: list[InputData]
    constants: dict[str, TensorData]
    statements: int
    recipe: GraphSettings
    backend: BackendData


class GraphData(GraphBase, GraphContent, total=False):
    """One graph of one process. `problem` says why its content is missing."""

    problem: str
    traceback: str
