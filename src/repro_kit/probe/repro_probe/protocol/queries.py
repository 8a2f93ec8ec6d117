"""Queries: what repro-kit asks of the server, and what the server replies (docs/explanation/zygote.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypedDict, Union

from .failure_data import ComparisonData, FrameData, LinkData
from .orders import Switch

QueryMode = Literal["check", "eager", "fake", "record", "diverge", "levers"]
QueryPhase = Literal["load", "eager", "compile", "run", "backward", "compare", "exit"]
QueryStatus = Literal["pass", "fail", "invalid", "infra"]
Until = Literal["native", "native_backward"]


class Request(TypedDict):
    """The part of a query that every request has."""

    id: int
    mode: QueryMode
    text: str
    inputs: str | None
    timeout: float
    memory: int | None  # bytes that the query may map beyond what torch has mapped


class Query(Request, total=False):
    """A query: one request line. `scratch` and `ends` are added by the server."""

    until: Until | None
    texts: list[str]  # mode ``fake``
    values: list[str]  # mode ``record``: names whose values are saved
    save: str | None
    switch: Switch | None
    scratch: str
    ends: float  # seconds since the epoch


class Cancel(TypedDict):
    """A message without a reply: kill the query of this id."""

    cancel: int


class Prepare(TypedDict):
    """A message without a reply: let an interpreter with these variables import torch ahead of its query."""

    prepare: dict[str, str]


Message = Union[Query, Cancel, Prepare]


class SubsystemBase(TypedDict):
    """What every subsystem has."""

    name: str


class Subsystem(SubsystemBase, total=False):
    """A subsystem of the compiler that can be switched off; with `setting` that is done by a setting."""

    setting: str
    value: Any


class SettingData(TypedDict):
    """A setting of torch, and the other values that it takes."""

    name: str
    value: Any
    others: list[Any]


class Capabilities(TypedDict, total=False):
    """What this torch lets one switch from outside; empty where nobody answered."""

    subsystems: dict[str, list[Subsystem]]
    graphs: bool
    settings: list[SettingData]


#: One application of a subsystem: backend, subsystem, name, user's line.
Application = Sequence[str]


class QueryAnswer(ComparisonData, total=False):
    """What a query itself reports."""

    status: QueryStatus
    phase: QueryPhase | None
    exceptions: list[LinkData]
    origins: list[str]
    valid: Any  # mode ``fake``: bool or None; with `texts` a list of these
    values: dict[str, Any]  # mode ``record``
    later_calls: list[dict[str, Any]]
    names: list[str]  # mode ``diverge``
    levers: Capabilities


class Reply(QueryAnswer, total=False):
    """A reply line: what the query reports, and what only the server knows."""

    id: int
    seconds: float
    text: str  # the end of stderr
    signal: str | None
    timed_out: bool
    stack: list[FrameData]
    applied: list[Application]


class QueryReport(TypedDict, total=False):
    """A line that a query writes to the server: its phase, or its answer."""

    phase: QueryPhase
    reply: QueryAnswer


class ServerReady(TypedDict):
    """The first line that the server writes."""

    ready: bool
