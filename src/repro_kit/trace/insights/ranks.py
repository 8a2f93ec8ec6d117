"""Compare ranks: where they compiled different code, and the first statement that differs."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import orjson

from repro_kit.failure.failure import Frame
from repro_kit.trace.dynamo_text import parse_guard
from repro_kit.trace.graph_text import Statement, statements_of
from repro_kit.trace.insights.compile_index import CompileIndex
from repro_kit.trace.insights.guards import leaves
from repro_kit.trace.places import CompileRef, is_torch, ref_of
from repro_kit.trace.record import Record

_MOST = 200  # divergences that are listed
_MOST_TIMES = 20


@dataclass(frozen=True)
class Divergence:
    """A difference between ranks; each group is a value and its ranks.

    `what`: ``code`` (the compile is of different functions, as in a pipeline), ``compiles``, ``graph``, ``collectives``
    (their order in what Inductor generated), ``tensors`` (that the generated code makes), ``cache``, or ``order`` (in
    which the graphs ran; of no compile).
    """

    what: str
    compile_id: str
    groups: tuple[tuple[str, tuple[int, ...]], ...]
    also: tuple[str, ...] = ()  # further compiles in which the same ranks differ in the same way

    @property
    def compile_ids(self) -> tuple[str, ...]:
        """All compiles in which the ranks differ so."""
        return (self.compile_id, *self.also)

    @property
    def alike(self) -> tuple[object, ...]:
        """What is equal for compiles in which the ranks differ in the same way."""
        ranks = tuple(sorted(at for _, at in self.groups))
        return self.what, ranks if self.what in _OF_ONE_COMPILE else tuple(sorted(self.groups))


#: Differences whose values are of one compile only.
_OF_ONE_COMPILE = ("code", "graph", "collectives", "tensors")


def _grouped(divergences: Iterable[Divergence]) -> list[Divergence]:
    """One divergence for all compiles in which the same ranks differ alike, the first with its values."""
    found: dict[object, list[Divergence]] = {}
    for divergence in divergences:
        found.setdefault(divergence.alike, []).append(divergence)
    return [replace(same[0], also=tuple(other.compile_id for other in same[1:])) for same in found.values()]


@dataclass(frozen=True)
class ExpectedTimes:
    """What Inductor expects one graph to take, in seconds, by rank."""

    compile_id: str
    seconds: dict[int, float]

    @property
    def spread(self) -> float:
        """The slowest rank's time without the fastest rank's."""
        return max(self.seconds.values()) - min(self.seconds.values())


@dataclass(frozen=True)
class Ranks:
    """The ranks of a trace and their differences."""

    ranks: tuple[int, ...] = ()
    compiles: dict[int, int] = field(default_factory=dict)  # by rank
    divergences: tuple[Divergence, ...] = ()
    left_out: int = 0
    runtimes: dict[int, float] = field(default_factory=dict)  # seconds that Inductor expects of all graphs, by rank
    uneven: tuple[ExpectedTimes, ...] = ()  # graphs that Inductor expects to take longer on some ranks, the worst first
    named: tuple[str, ...] = ()  # logs whose rank is that of their file name, since no record tells one of their own


@dataclass
class RankBooks:
    """Collects a few bytes for each compile and rank."""

    index: CompileIndex
    refs: dict[str, dict[int, CompileRef]] = field(default_factory=dict)
    graphs: dict[str, dict[int, str]] = field(default_factory=dict)
    schedules: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    caches: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    compiles: dict[int, dict[CompileRef, None]] = field(default_factory=dict)
    tensors: dict[str, dict[int, tuple[str, ...]]] = field(default_factory=dict)
    runtimes: dict[str, dict[int, float]] = field(default_factory=dict)
    orders: dict[int, str] = field(default_factory=dict)
    _kept: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)  # equal ranks share what they make

    def see(self, record: Record) -> None:
        """Record what a rank compiled."""
        if record.rank is not None and record.name == "graph_execution":
            self.orders[record.rank] = _order(record)
        ref = ref_of(record) if record.rank is not None else None
        if record.rank is None or ref is None:
            return
        name = str(replace(ref, rank=None))
        self.compiles.setdefault(record.rank, {}).setdefault(ref)
        self.refs.setdefault(name, {}).setdefault(record.rank, ref)
        if record.event == "dynamo_output_graph":
            text = _of_any_rank(record.payload or "")
            digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:8]
            self.graphs.setdefault(name, {})[record.rank] = digest
        elif record.name == "inductor_collective_schedule":
            self.schedules.setdefault(name, {}).setdefault(record.rank, []).append(_schedule(record))
        elif record.name == "inductor_runtime_and_tensor_meta":
            made, seconds = _generated(record)
            of_ranks = self.tensors.setdefault(name, {})
            made = (*of_ranks.get(record.rank, ()), *made)
            of_ranks[record.rank] = self._kept.setdefault(made, made)
            times = self.runtimes.setdefault(name, {})
            times[record.rank] = times.get(record.rank, 0.0) + seconds
        elif "_cache_" in record.name and record.event == "artifact":
            seen = self.caches.setdefault(name, {}).setdefault(record.rank, [])
            seen.append(record.name)

    def result(self) -> Ranks:
        """The differences; none for a single rank."""
        ranks = tuple(sorted(self.compiles))
        divergences = _grouped(self._differences(ranks)) if len(ranks) > 1 else []
        counts = {rank: len(ids) for rank, ids in sorted(self.compiles.items())}
        left_out = max(0, len(divergences) - _MOST)
        return Ranks(ranks, counts, tuple(divergences[:_MOST]), left_out, self._all_times(), self._uneven())

    def _all_times(self) -> dict[int, float]:
        ranks = sorted({rank for times in self.runtimes.values() for rank in times})
        return {rank: sum(times.get(rank, 0.0) for times in self.runtimes.values()) for rank in ranks}

    def _uneven(self) -> tuple[ExpectedTimes, ...]:
        """Graphs whose times differ by rank. Other functions than the other ranks' are not compared."""
        uneven = (
            ExpectedTimes(name, dict(sorted(times.items())))
            for name, times in self.runtimes.items()
            if len(set(times.values())) > 1 and len(set(self._functions(name).values())) < 2
        )
        return tuple(sorted(uneven, key=lambda one: -one.spread)[:_MOST_TIMES])

    def _differences(self, ranks: tuple[int, ...]) -> Iterator[Divergence]:
        yield from _differing("order", "", self.orders)
        for compile_id in self.refs:
            different = list(_differing("code", compile_id, self._functions(compile_id)))
            if different:  # nothing else of it can be compared
                yield from different
                continue
            states = {rank: "compiled" if rank in self.refs[compile_id] else "not compiled" for rank in ranks}
            yield from _differing("compiles", compile_id, states)
            yield from _differing("graph", compile_id, self.graphs.get(compile_id, {}))
            schedules = {rank: "; ".join(texts) for rank, texts in self.schedules.get(compile_id, {}).items()}
            yield from _differing("collectives", compile_id, schedules)
            yield from _making(compile_id, self.tensors.get(compile_id, {}))
            caches = {rank: ", ".join(names) for rank, names in self.caches.get(compile_id, {}).items()}
            yield from _differing("cache", compile_id, caches)

    def _functions(self, compile_id: str) -> dict[int, str]:
        """The function that each rank compiled, where the trace names it."""
        codes = {rank: self.index.code(ref) for rank, ref in self.refs.get(compile_id, {}).items()}
        return {
            rank: f"{code.function} ({code.file.rpartition('/')[2]}:{code.line})"
            for rank, code in codes.items()
            if code is not None
        }


#: What differs between ranks that run the same code, and what stands for it.
_OF_A_RANK = (
    (re.compile(r"\b(cuda|xpu|hpu|npu|mtia|maia|privateuseone)(:|', index=)\d+"), r"\1\2*"),
    (re.compile(r"\b((?:local|global|node|world)?_?rank)([ _=:']{1,4})\d+", re.IGNORECASE), r"\1\2*"),
    (re.compile(r"\b(localhost|\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:]*\]):\d{2,5}\b"), "host:*"),
    (re.compile(r"\b((?:master_)?port)([ =:']{1,4})\d+", re.IGNORECASE), r"\1\2*"),
    (re.compile(r"\b0x[0-9a-f]{6,}"), "0x*"),
    (re.compile(r"(?<![\w.])(?:[A-Za-z]:)?(?:[/\\][\w.+@ -]+)+[/\\](?=[\w.+@-]+)"), ""),
)


def _of_any_rank(text: str) -> str:
    """`text` without what differs between ranks of one program: devices, ranks, ports, addresses, directories."""
    for pattern, stands in _OF_A_RANK:
        text = pattern.sub(stands, text)
    return text


def _schedule(record: Record) -> str:
    """The collectives of one graph in their order (torch/_inductor/debug.py, `log_collective_schedule`)."""
    try:
        names = orjson.loads(record.payload or "")
    except orjson.JSONDecodeError:
        return record.payload or ""
    return ", ".join(_plain(str(name)) for name in names) if isinstance(names, list) else str(names)


def _order(record: Record) -> str:
    """The compile ids in the order in which their graphs ran (torch/_inductor/debug.py)."""
    data = record.json()
    steps = data.get("graph_execution_order") if isinstance(data, dict) else None
    ids = [str(step.get("compile_id", step) if isinstance(step, dict) else step) for step in steps or ()]
    return ", ".join(ids[:_MOST]) + (f" and {len(ids) - _MOST} more" if len(ids) > _MOST else "")


def _generated(record: Record) -> tuple[tuple[str, ...], float]:
    """The operators of the generated code with the tensors that each makes, and the seconds that Inductor expects."""
    data = record.json()
    ops = data.get("ops") if isinstance(data, dict) else None
    known = [op for op in ops if isinstance(op, dict)] if isinstance(ops, list) else []
    times = (op.get("estimated_runtime_ns") for op in known)
    seconds = sum(time for time in times if isinstance(time, int | float) and 0 <= time < 2**53) / 1e9
    return tuple(_of_any_rank(_operator(op)) for op in known), seconds


def _operator(op: dict[str, Any]) -> str:
    """``extern_kernels.mm makes float32 [8, 16], strides [16, 1]``."""
    outputs = op.get("outputs")
    tensors = [one for one in outputs if isinstance(one, dict)] if isinstance(outputs, list) else []
    made = [
        f"{one.get('dtype') or ''} {one.get('shape')}".strip()
        + (f", strides {one['stride']}" if one.get("stride") else "")
        for one in tensors
    ]
    return f"{op.get('name')} makes {' and '.join(made)}" if made else str(op.get("name"))


def _plain(kernel: str) -> str:
    """``all_reduce`` of ``torch.ops._c10d_functional.all_reduce_.default``."""
    return kernel.removesuffix(".default").rpartition(".")[2].rstrip("_")


def _differing(subject: str, compile_id: str, seen: dict[int, str]) -> Iterator[Divergence]:
    groups: dict[str, list[int]] = {}
    for rank, value in seen.items():
        groups.setdefault(value, []).append(rank)
    if len(groups) > 1:
        yield Divergence(subject, compile_id, tuple((value, tuple(sorted(at))) for value, at in groups.items()))


def _making(compile_id: str, seen: dict[int, tuple[str, ...]]) -> Iterator[Divergence]:
    """The first operator that makes something else on some ranks."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for rank, made in seen.items():
        groups.setdefault(made, []).append(rank)
    if len(groups) < 2:
        return
    columns = zip_longest(*groups, fillvalue="nothing more")
    at, apart = next((at, column) for at, column in enumerate(columns, 1) if len(set(column)) > 1)
    told = (
        (f"operator {at}: {text}", tuple(sorted(ranks))) for text, ranks in zip(apart, groups.values(), strict=True)
    )
    yield Divergence("tensors", compile_id, tuple(told))


_MOST_VALUES = 5  # values that are listed
_SIZED = "a tensor of size"
_SIZE = re.compile(r"size=(\[[^\]]*\])")
#: Checks of a guard tree that tell a value. Checks of identity hold addresses, which differ in every process.
_OF_VALUES = ("EQUALS_MATCH", "CONSTANT_MATCH", "NONE_MATCH", "TRUE_MATCH", "FALSE_MATCH", "LENGTH_CHECK")


@dataclass(frozen=True)
class GuardedValue:
    """A source that is guarded with another value on each of two ranks, and the user's line that made the guard."""

    source: str
    values: tuple[str, str]
    where: Frame | None = None
    sized: bool = False  # the values are sizes of a tensor


@dataclass(frozen=True)
class Parting:
    """How the graphs of one compile differ on two ranks.

    `statements`: the first that differs, for each rank; None at the end of a graph. Two None if only sizes differ.
    """

    compile_id: str
    ranks: tuple[int, int]
    statements: tuple[Statement | None, Statement | None] = (None, None)
    values: tuple[GuardedValue, ...] = ()

    def sentences(self) -> str:
        """The difference in words, with the user's lines."""
        left, right = self.statements
        words = []
        if left or right:
            same_line = left is not None and right is not None and left.where == right.where
            parts = [
                f"rank {rank} {_statement(statement, same_line)}"
                for rank, statement in zip(self.ranks, self.statements, strict=True)
            ]
            words.append(f"The graphs part where {parts[0]}, and {parts[1]}.")
        for value in self.values:
            pairs = [f"{text} on rank {rank}" for rank, text in zip(self.ranks, value.values, strict=True)]
            code = f" (`{value.where.code}`, {_place(value.where)})" if value.where else ""
            words.append(f"{value.source} is {' and '.join(pairs)}{code}.")
        return " ".join(words)


def _statement(statement: Statement | None, bare: bool) -> str:
    if statement is None:
        return "ends"
    if statement.where is None or is_torch(statement.where.file):
        return f"calls `{statement.text}`"
    if bare:
        return f"calls `{statement.text}` ({_place(statement.where)})"
    return f"goes on with `{statement.where.code}` ({_place(statement.where)})"


def _place(frame: Frame) -> str:
    return f"{frame.file.rpartition('/')[2]}:{frame.line}"


def parting(divergences: Iterable[Divergence], records: Iterable[Record]) -> Parting | None:
    """Look at the first compile whose graphs differ; None if there is none. `records`: those of the whole trace."""
    first = next((divergence for divergence in divergences if divergence.what == "graph"), None)
    if first is None:
        return None
    one, other, *_ = sorted(min(ranks) for _, ranks in first.groups)
    ranks = one, other
    graphs, guards = dict.fromkeys(ranks, ""), dict.fromkeys(ranks, "")
    for record in records:
        ref = ref_of(record)
        if ref is not None and str(replace(ref, rank=None)) == first.compile_id and record.rank in graphs:
            found = {"dynamo_output_graph": graphs, "dynamo_cpp_guards_str": guards}.get(record.event)
            if found is not None:
                found[record.rank] = record.payload or ""
    files = {frame.file for graph in graphs.values() for frame in _frames(graph)}
    left, right = (_guarded(guards[rank]) for rank in ranks)
    values = tuple(
        GuardedValue(source, (value, right[source][0]), _whole(where, files), sized=value.startswith(_SIZED))
        for source, (value, where) in left.items()
        if source in right and right[source][0] != value
    )
    return Parting(first.compile_id, ranks, _first_apart(*(graphs[rank] for rank in ranks)), values[:_MOST_VALUES])


def _frames(graph: str) -> Iterator[Frame]:
    return (statement.where for statement in statements_of(graph) if statement.where)


def _whole(frame: Frame | None, files: Collection[str]) -> Frame | None:
    """`frame` with its whole path. A guard has the end of the path only (torch/utils/_traceback.py)."""
    known = [file for file in files if frame is not None and file.endswith(frame.file)]
    return replace(frame, file=known[0]) if frame is not None and len(known) == 1 else frame


def _first_apart(left: str, right: str) -> tuple[Statement | None, Statement | None]:
    pairs = zip_longest(statements_of(left), statements_of(right))
    return next((pair for pair in pairs if _text(pair[0]) != _text(pair[1])), (None, None))


def _text(statement: Statement | None) -> str:
    return _of_any_rank(statement.text) if statement else ""


def _guarded(tree: str) -> Mapping[str, tuple[str, Frame | None]]:
    """The value with which each source is guarded. A source with several values is left out."""
    found = {}
    seen: Counter[str] = Counter()
    for leaf in leaves(tree):
        guard = parse_guard(leaf.text)
        size = _SIZE.search(guard.text) if leaf.name == "TENSOR_MATCH" else None
        if size or leaf.name in _OF_VALUES:
            value = f"{_SIZED} {size[1]}" if size else guard.expected or guard.text
            source = f"len({leaf.source})" if leaf.name == "LENGTH_CHECK" else leaf.source or guard.source
            found[source] = (value, guard.where)
            seen[source] += 1
    return {source: value for source, value in found.items() if seen[source] == 1}
