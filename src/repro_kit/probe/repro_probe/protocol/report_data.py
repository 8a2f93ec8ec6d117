"""What a report says of a program beyond its verdict: the question of mode ``report``, and the answer."""

from __future__ import annotations

from typing import Literal, TypedDict

from .failure_data import DifferenceData

#: What is looked up in torch's source: the lowering of an operator, a decomposition of an operator, a Python kernel of
#: an operator that tracing uses, a pass over graphs, Dynamo's handler of a function, or any class or function.
PlaceKind = Literal["lowering", "decomposition", "python-kernel", "pass", "handler", "object"]


class PlaceAsked(TypedDict):
    """A place in torch's source: ``aten.relu.default``, ``reorder_for_locality``, ``torch.f``, ``module:name``."""

    kind: PlaceKind
    name: str


class ReportAsked(TypedDict):
    """The question: how much of the program to run, and which places to look up."""

    run: Literal["nothing", "eager", "compiled"]
    places: list[PlaceAsked]


class SourceData(TypedDict):
    """A place in the source of the installed torch: `file` is relative, ``torch/_inductor/lowering.py``."""

    what: str
    file: str
    line: int
    function: str


class DoubleData(TypedDict):
    """One result with wrong values: the largest errors of eager and of compiled against double precision."""

    where: str
    dtype: str
    eager: float
    compiled: float


class KernelData(TypedDict):
    """A kernel that Inductor generated; `language`: ``cpp`` or ``triton``."""

    name: str
    language: str
    code: str


class ReportData(TypedDict, total=False):
    """The answer. What is absent was not asked, or could not be had; `missing` says why, by the name of the field."""

    eager_seconds: float
    differences: list[DifferenceData]  # the worst first; empty: the compiled program agrees with eager
    double: dict[str, str]  # the first wrong element in double precision, by the result that it is of
    errors: list[DoubleData]
    with_casts: bool  # whether it differs under emulate_precision_casts too
    kernels: list[KernelData]
    places: list[SourceData]
    missing: dict[str, str]
