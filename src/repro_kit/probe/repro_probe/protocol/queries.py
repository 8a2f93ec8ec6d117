"""The queries that repro-kit sends to the server, and the server's replies (docs/explanation/zygote.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypedDict, Union

from .failure_data import ComparisonData, DifferenceData, ErrorRow, FrameData, LinkData
from .orders import ProbeOptions, RunMode, Switch

#: What is looked up in torch's source: the lowering of an operator, a decomposition of an operator, a Python kernel of
#: an operator that tracing uses, a pass over graphs, Dynamo's handler of a function, or any class or function.
PlaceKind = Literal["lowering", "decomposition", "python-kernel", "pass", "handler", "object"]


class PlaceAsked(TypedDict):
    """A place in torch's source: ``aten.relu.default``, ``reorder_for_locality``, ``torch.f``, ``module:name``."""

    kind: PlaceKind
    name: str


class ReportAsked(TypedDict):
    """The question: how much of the program to run, and which places to look up.

    Of a program that dies in a kernel: `native` and `native_backward` end before that kernel is built (see `Until`).
    """

    run: Literal["nothing", "eager", "compiled", "native", "native_backward"]
    places: list[PlaceAsked]


class SourceData(TypedDict):
    """A place in the source of the installed torch: `file` is relative, ``torch/_inductor/lowering.py``."""

    what: str
    file: str
    line: int
    function: str


class DoubleData(TypedDict):
    """One result with wrong values: the largest errors of eager and of compiled against double precision.

    ``…_apart`` counts the elements without such an error: NaN, or another infinity, stands on one of the two sides.
    """

    where: str
    dtype: str
    eager: float
    compiled: float
    eager_apart: int
    compiled_apart: int


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


QueryMode = Literal["check", "eager", "fake", "record", "diverge", "levers", "rounding", "report", "script"]
QueryPhase = Literal["load", "eager", "compile", "run", "backward", "compare", "exit"]
QueryStatus = Literal["pass", "fail", "invalid", "infra"]
Until = Literal["native", "native_backward"]


class Request(TypedDict):
    """The fields of every query."""

    id: int
    mode: QueryMode
    text: str
    inputs: str | None
    timeout: float
    memory: int | None  # bytes that the query may map beyond what torch has mapped


class Recording(TypedDict):
    """Where an instrumented script runs, under which name, and the file for what its expressions returned.

    `cwd`: only the whole script of the user's runs there. None: in its scratch directory, under the guard.
    """

    cwd: str | None
    main: str
    file: str


class ScriptOrder(TypedDict):
    """A script to run like ``python script.py``, in mode ``script``; a `recording` may run in the user's directory."""

    text: str
    directory: str  # for `probe/` (the findings), `trace/`, stdout.txt and stderr.txt
    mode: RunMode
    options: ProbeOptions
    env: dict[str, str]  # further variables
    env_before_torch: dict[str, str]  # those that must be there when torch is imported, as the script sets them
    recording: Recording | None
    ranks: int  # processes that run the script, as torchrun starts them


class Query(Request, total=False):
    """A query: one request line. The server adds `scratch` and `ends`."""

    until: Until | None
    texts: list[str]  # mode ``fake``
    values: list[str]  # mode ``record``: names whose values are saved
    gradients: bool  # mode ``diverge``: only gradients differ, so these are looked at first
    save: str | None
    switch: Switch | None
    script: ScriptOrder  # mode ``script``
    report: ReportAsked  # mode ``report``
    rank: int  # set in the processes of the ranks that are not judged
    scratch: str
    ends: float  # seconds since the epoch


class Cancel(TypedDict):
    """A message without a reply: kill the query of this id."""

    cancel: int


class Expire(TypedDict):
    """A message without a reply: end the query of this id now, as at its time limit."""

    expire: int


class Prepare(TypedDict):
    """A message without a reply: start an interpreter with these variables, which imports torch ahead of its query."""

    prepare: dict[str, str]


Message = Union[Query, Cancel, Expire, Prepare]


class SubsystemBase(TypedDict):
    """The fields of every subsystem."""

    name: str


class Subsystem(SubsystemBase, total=False):
    """A subsystem of the compiler that can be switched off, by the setting `setting` where there is one."""

    setting: str
    value: Any


class SettingData(TypedDict):
    """A setting of torch, and the other values that it takes."""

    name: str
    value: Any
    others: list[Any]


class Capabilities(TypedDict, total=False):
    """What this torch can switch off, and its modes; empty when the server did not answer."""

    subsystems: dict[str, list[Subsystem]]
    graphs: bool
    settings: list[SettingData]
    modes: dict[str, dict[str, Any]]  # the modes of `torch.compile` with their options


class TriedSetting(TypedDict):
    """The program compiled anew under a setting: whether it agrees with eager, and the largest difference left."""

    setting: str
    agrees: bool
    gap: float


class RoundingData(TypedDict):
    """Why a difference is rounding, as mode ``rounding`` finds it."""

    errors: list[ErrorRow]
    rounding: bool
    growth: float  # of one rounding error, up to the result
    first: list[str]  # names of the values where rounding begins to differ
    tried: list[TriedSetting]


#: One application of a subsystem: backend, subsystem, name, user's line.
Application = Sequence[str]


class QueryAnswer(ComparisonData, total=False):
    """The answer that a query reports to the server."""

    status: QueryStatus
    phase: QueryPhase | None
    exceptions: list[LinkData]
    origins: list[str]
    valid: Any  # mode ``fake``: bool or None; with `texts` a list of these
    values: dict[str, Any]  # mode ``record``
    later_calls: list[dict[str, Any]]
    validation: bool  # `exceptions` are eager's; the compiled program raises none
    growth: str  # how compile time grows, where it grows too fast
    names: list[str]  # mode ``diverge``: the statements
    harmless: list[str]  # mode ``diverge``: those that are wrong, too, although no result shows it
    unsuspected: list[str]  # mode ``diverge``: those whose values were right in a run whose results were wrong
    backward: bool  # mode ``diverge``: the gradients that they give are wrong, and not the values that they make
    levers: Capabilities
    explained: RoundingData  # mode ``rounding``
    told: ReportData  # mode ``report``
    exit_status: int  # mode ``script``
    refused: list[str]  # mode ``script``: what the guard did not let it do


class Reply(QueryAnswer, total=False):
    """A reply line: the answer of the query, and what the server adds."""

    id: int
    seconds: float
    text: str  # the end of stderr
    signal: str | None
    timed_out: bool
    stuck: bool  # before the time-out: the ranks wait for each other for ever
    stack: list[FrameData]
    applied: list[Application]


class QueryReport(TypedDict, total=False):
    """A line that a query writes to the server: its phase, its answer, or that its ranks wait for each other."""

    phase: QueryPhase
    stuck: bool
    reply: QueryAnswer


class ServerReady(TypedDict):
    """The first line that the server writes."""

    ready: bool
