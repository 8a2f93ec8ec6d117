"""The overview: what was compiled, as a tree of the calling code, how it ended, and with which settings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import orjson

from repro_kit.failure.failure import Frame
from repro_kit.probe.repro_probe.protocol.recipe_data import CONFIG_MODULES
from repro_kit.trace.compiles import CompileOutcome, Compiles
from repro_kit.trace.insights.compile_index import CompileFacts, CompileIndex
from repro_kit.trace.places import CompileRef, ref_of
from repro_kit.trace.record import Record


@dataclass(frozen=True)
class Setting:
    """A changed setting: ``torch._dynamo.config.recompile_limit``, and both values as torch prints them."""

    name: str
    value: str
    default: str


@cache
def _defaults() -> dict[str, dict[str, Any]]:
    data: dict[str, dict[str, Any]] = orjson.loads(Path(__file__).with_name("defaults.json").read_bytes())
    return data


def baseline() -> str:
    """The release of torch whose defaults were recorded."""
    return str(_defaults()["torch"]["version"])


def unusual(home: str, values: Mapping[str, Any]) -> Iterator[Setting]:
    """The settings of module `home` that are not at their default; unknown settings are left out."""
    defaults = _defaults().get(home, {})
    for name, value in values.items():
        if name in defaults and defaults[name] != value:
            yield Setting(f"{home}.{name}", repr(value), repr(defaults[name]))


_PREFIX = "skipping cudagraphs due to "
_STACK = re.compile(r"\.?\s*Found from ?:")
_FRAME = re.compile(r'File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>\S+)(?:\n\s*(?P<code>\S.*))?')


@dataclass(frozen=True)
class SkippedCudaGraphs:
    """A compile, why CUDA graphs do not run its code, and the user's line behind that, where torch names one."""

    ref: CompileRef
    reason: str
    where: Frame | None = None


def skipped(ref: CompileRef, message: str) -> SkippedCudaGraphs:
    """What torch's message says."""
    head, *rest = _STACK.split(message, maxsplit=1)
    reason = " ".join(head.strip().removeprefix(_PREFIX).split())
    found = list(_FRAME.finditer(rest[0])) if rest else []
    if not found:
        return SkippedCudaGraphs(ref, reason)
    last = found[-1]
    return SkippedCudaGraphs(
        ref, reason, Frame(last["file"], int(last["line"]), last["function"], (last["code"] or "").strip())
    )


#: Phases of a forward compile and the metrics that time each.
_PHASES = {
    "dynamo": ("dynamo_cumulative_compile_time_us",),
    "aot": ("aot_autograd_cumulative_compile_time_us",),
    "inductor": ("inductor_cumulative_compile_time_us",),
    "codegen": ("inductor_code_gen_cumulative_compile_time_us",),
    "native": ("triton_compile_time_us",),
    "passes": ("pre_grad_pass_time_us", "joint_graph_pass_time_us", "post_grad_pass_time_us"),
    "before restarts": ("dynamo_compile_time_before_restart_us",),
}
_CACHES = {
    "aotautograd_cache_hit": ("AOTAutograd", "hits"),
    "aotautograd_cache_miss": ("AOTAutograd", "misses"),
    "aotautograd_cache_bypass": ("AOTAutograd", "bypasses"),
    "fx_graph_cache_hit": ("FX graph", "hits"),
    "fx_graph_bundled_cache_hit": ("FX graph", "hits"),
    "fx_graph_cache_miss": ("FX graph", "misses"),
    "fx_graph_cache_bypass": ("FX graph", "bypasses"),
    "dynamo_cache_bypass": ("precompile", "bypasses"),
    "precompile_cache_bypass": ("precompile", "bypasses"),
}
#: Records of the trace, and the config module whose settings each one holds.
_CONFIGS = {f"{short}_config": module for short, module in CONFIG_MODULES.items()}


class OverviewState(StrEnum):
    """How a compile ended, in the words of the tree."""

    OK = "ok"
    BROKEN = "broken"  # its graph ends at a graph break
    RESTARTED = "restarted"  # compiled after several attempts, but without a graph break
    EMPTY = "empty"  # compiled, with nothing in the graph
    EAGER = "eager"  # left to eager
    FAILED = "failed"
    OPEN = "open"  # began, and has no recorded end


COMPILED = (OverviewState.OK, OverviewState.BROKEN, OverviewState.RESTARTED, OverviewState.EMPTY)


@dataclass(frozen=True)
class CompileInfo:
    """One compile."""

    ref: CompileRef
    state: OverviewState
    code: Frame | None = None  # the compiled code object: file, first line, name
    attempts: int = 1
    seconds: float = 0.0
    backward_seconds: float = 0.0
    ops: int = 0
    guards: int = 0
    guard_latency_us: float = 0.0
    graph: str = ""  # equal for graphs with the same operations
    restarts: tuple[str, ...] = ()  # why the analysis began again, as torch says


@dataclass(frozen=True)
class OverviewNode:
    """A stack frame of the tree, listed from the root downwards, with the compiles that began there."""

    frame: Frame
    depth: int
    compiles: tuple[CompileRef, ...] = ()


@dataclass(frozen=True)
class CacheCount:
    """How often a cache was queried, and the results."""

    name: str
    hits: int = 0
    misses: int = 0
    bypasses: int = 0


@dataclass(frozen=True)
class Overview:
    """The whole trace in numbers.

    `phases` are seconds. ``dynamo``, ``aot``, ``inductor``, ``codegen`` and ``native`` (C++ or Triton) are each part of
    the phase before. ``backward`` is what was compiled later, when a backward ran.
    """

    compiles: tuple[CompileInfo, ...] = ()
    tree: tuple[OverviewNode, ...] = ()
    seconds: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)
    caches: tuple[CacheCount, ...] = ()
    guards: int = 0
    guard_latency_us: float = 0.0
    ops: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    settings: tuple[Setting, ...] = ()  # settings that are not at their default
    without_cuda_graphs: tuple[SkippedCudaGraphs, ...] = ()
    logs: int = 0
    ranks: tuple[int, ...] = ()
    anew: int = 0  # how often compile ids began anew, as after torch._dynamo.reset()

    def states(self) -> dict[OverviewState, int]:
        """The number of compiles by state."""
        counts = Counter(compile_.state for compile_ in self.compiles)
        return {state: counts[state] for state in OverviewState if counts[state]}


@dataclass
class _Branch:
    children: dict[tuple[str, int, str], _Branch] = field(default_factory=dict)
    frame: Frame | None = None
    compiles: dict[CompileRef, None] = field(default_factory=dict)


@dataclass
class Overviews:
    """Collects the overview in one pass."""

    names: ClassVar = (
        "dynamo_start", "dynamo_graph_break_reason", "torch_version", "compilation_metrics", "bwd_compilation_metrics",
        *_CACHES,
    )  # fmt: skip

    index: CompileIndex
    outcomes: Compiles
    root: _Branch = field(default_factory=_Branch)
    phases: dict[str, float] = field(default_factory=dict)
    caches: dict[str, Counter[str]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    broken: set[CompileRef] = field(default_factory=set)
    settings: dict[Setting, None] = field(default_factory=dict)
    skipped: dict[CompileRef, SkippedCudaGraphs] = field(default_factory=dict)
    _configs: set[int] = field(default_factory=set)

    def see(self, record: Record) -> None:
        """Count caches and phases, and add compiles to the tree."""
        ref = ref_of(record)
        name = record.name
        if name == "dynamo_start" and ref is not None:
            self._place(ref, record.frames("stack"))
        elif name in _CACHES:
            cache, outcome = _CACHES[name]
            self.caches.setdefault(cache, Counter())[outcome] += 1
        elif name == "dynamo_graph_break_reason" and ref is not None:
            self.broken.add(ref)
        elif name == "torch_version":
            self._version(record.json())
        elif record.event in ("compilation_metrics", "bwd_compilation_metrics"):
            self._metrics(record)
            if ref is not None and (reason := record.text("cudagraph_skip_reason")):
                self.skipped[ref] = skipped(ref, reason)

    def _version(self, data: Any) -> None:
        for key, shown in (("pytorch_version", "torch"), ("commit", "commit")):
            if isinstance(data, dict) and data.get(key):
                self.versions.setdefault(shown, str(data[key]))

    def _metrics(self, record: Record) -> None:
        for key in ("python_version", "cuda_version", "triton_version"):
            if record.text(key):
                self.versions.setdefault(key.removesuffix("_version"), record.text(key).partition(" ")[0])
        if record.event.startswith("bwd"):
            self._spend("backward", record.number("duration_us"))
            return
        for phase, keys in _PHASES.items():
            self._spend(phase, sum(record.number(key) for key in keys))
        for key, home in _CONFIGS.items():
            text = record.text(key)
            if text and hash(text) not in self._configs:
                self._configs.add(hash(text))
                self._config(home, text)

    def _spend(self, phase: str, microseconds: float) -> None:
        self.phases[phase] = self.phases.get(phase, 0.0) + microseconds / 1e6

    def _config(self, home: str, text: str) -> None:
        try:
            values = orjson.loads(text)
        except orjson.JSONDecodeError:
            return
        for setting in unusual(home, values if isinstance(values, dict) else {}):
            self.settings.setdefault(setting)

    def _place(self, ref: CompileRef, stack: tuple[Frame, ...]) -> None:
        at = self.root
        for frame in stack:
            key = frame.file, frame.line, frame.function
            at = at.children.setdefault(key, _Branch(frame=frame))
        at.compiles.setdefault(ref)

    def result(self) -> Overview:
        """The overview, after all records."""
        outcomes = {
            CompileRef(compile_.compile_id, compile_.rank, compile_.log, compile_.epoch): compile_.outcome
            for compile_ in self.outcomes.all()
        }
        compiles = tuple(self._info(compile_, outcomes.get(compile_.ref)) for compile_ in self.index.compiles.values())
        phases = {phase: self.phases[phase] for phase in (*_PHASES, "backward") if self.phases.get(phase)}
        nodes: list[OverviewNode] = []
        for child in self.root.children.values():
            _flatten(child, 0, nodes)
        return Overview(
            compiles,
            tuple(nodes),
            sum(compile_.seconds + compile_.backward_seconds for compile_ in compiles),
            phases,
            tuple(CacheCount(name, **counts) for name, counts in self.caches.items()),
            sum(compile_.guards for compile_ in compiles),
            sum(compile_.guard_latency_us for compile_ in compiles),
            sum(compile_.ops for compile_ in compiles),
            self.versions,
            tuple(self.settings),
            tuple(self.skipped.values()),
            len(self.index.logs),
            tuple(sorted({rank for rank in self.index.logs.values() if rank is not None})),
            len({(ref.log, ref.epoch) for ref in self.index.compiles if ref.epoch}),
        )

    def _info(self, facts: CompileFacts, outcome: CompileOutcome | None) -> CompileInfo:
        ops = int(facts.numbers.get("graph_op_count") or (facts.shape.ops if facts.shape else 0))
        return CompileInfo(
            facts.ref,
            self._state(facts, outcome, ops),
            self.index.code(facts.ref),
            facts.attempts,
            facts.seconds,
            facts.backward_us / 1e6,
            ops,
            int(facts.numbers.get("guard_count", 0)),
            facts.numbers.get("guard_latency_us", 0.0),
            facts.shape.digest[:12] if facts.shape else "",
            facts.restarts,
        )

    def _state(self, facts: CompileFacts, outcome: CompileOutcome | None, ops: int) -> OverviewState:
        if outcome == CompileOutcome.OK:
            if facts.ref in self.broken:
                return OverviewState.BROKEN
            if not ops:
                return OverviewState.EMPTY
            return OverviewState.RESTARTED if facts.attempts > 1 else OverviewState.OK
        return OverviewState(outcome.value) if outcome else OverviewState.OPEN


def _flatten(branch: _Branch, depth: int, nodes: list[OverviewNode]) -> None:
    """Append `branch` and its children in order. Not recursive, since stacks may be deep."""
    todo = [(branch, depth)]
    while todo:
        at, level = todo.pop()
        if at.frame is not None:
            nodes.append(OverviewNode(at.frame, level, tuple(at.compiles)))
        todo += [(child, level + 1) for child in reversed(at.children.values())]
