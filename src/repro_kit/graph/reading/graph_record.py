"""The record of a graph that the probe wrote at Dynamo's border (probe/repro_probe/record/graph_recorder.py)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ViewRecord:
    """The tensor that an input is a view of, and how autograd says that the view was made (`ViewData`).

    `offset`: of the view within the base, in elements.
    """

    base: InputRecord
    made: str = "default"
    offset: int = 0


@dataclass(frozen=True)
class InputRecord:
    """One argument of a call, as the probe saw it (probe/repro_probe/record/graph.py, `describe_arguments`)."""

    kind: str = "tensor"  # the records of a graph's own constants have no kind
    name: str = ""
    source: str | None = None
    value: Any = None
    symbol: str | None = None
    symbols: tuple[str, ...] = ()
    symbolic: bool = False
    as_tensor: bool = False
    shape: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    offset: int = 0
    dtype: str = "torch.float32"
    device: str = "cpu"
    requires_grad: bool = False
    parameter: bool = False
    storage: str = ""
    span: int | None = None
    file: str | None = None
    bits: tuple[str, ...] = ()  # what is to be done to the stored values: "conj", "neg"; "zero": there are none
    low: int | None = None
    high: int | None = None
    scalar: float | None = None  # the value of a float that became dynamic
    leaf: bool = True
    own: str = ""  # equal for records of the same tensor of one call
    inference: bool = False
    view: ViewRecord | None = None


@dataclass(frozen=True)
class NameRecord:
    """A global name in generated code, and where to import it from."""

    module: str | None = None
    name: str | None = None
    file: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class KernelRecord:
    """A user's Triton kernel, and the arguments of each configuration that it tries, as Python code."""

    module: str | None = None
    name: str | None = None
    file: str | None = None
    configs: tuple[dict[str, str], ...] = ()


@dataclass(frozen=True)
class LaunchRecord:
    """A launch of a kernel. `constants`: arguments that are not in the graph, as code; None if that is not known."""

    kernel: KernelRecord = field(default_factory=KernelRecord)
    constants: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class BackendRecord:
    """The backend that the user chose."""

    name: str | None = None
    mode: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    dynamic: bool | None = None
    file: str | None = None
    qualname: str | None = None


@dataclass(frozen=True)
class GraphRecord:
    """One graph of one process (probe/repro_probe/record/graph_recorder.py)."""

    number: int
    pid: int
    compile_id: str
    code: str = ""
    modules: dict[str, str] = field(default_factory=dict)
    names: dict[str, NameRecord] = field(default_factory=dict)
    launches: dict[str, LaunchRecord] = field(default_factory=dict)  # by "<kernel_idx>/<constant_args_idx>"
    lines: dict[str, str] = field(default_factory=dict)  # of the user's code, by the name that a statement assigns
    inputs: tuple[InputRecord, ...] = ()
    constants: dict[str, InputRecord] = field(default_factory=dict)
    statements: int = 0
    recipe: dict[str, Any] = field(default_factory=dict)
    backend: BackendRecord = field(default_factory=BackendRecord)
    problem: str | None = None

    @property
    def rank(self) -> int | None:
        """The rank that compiled it; None if the process was in no group."""
        world = self.recipe.get("world")
        return None if world is None else int(world["rank"])

    @property
    def named(self) -> str:
        """The graph in words."""
        return f"graph {self.compile_id}" + ("" if self.rank is None else f" of rank {self.rank}")
