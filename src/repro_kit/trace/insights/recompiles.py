"""Recompiles: which guard failed, on which source, whether because of a size, and the values over time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest
from typing import ClassVar

from repro_kit.failure.failure import Frame
from repro_kit.failure.messages import AT_THE_LIMIT
from repro_kit.trace.dynamo_text import Guard, GuardText, parse_guard, whole_source
from repro_kit.trace.insights.compile_index import CodeFrame, CompileFacts, CompileIndex, TensorSpec
from repro_kit.trace.places import CodeKey, CompileRef, ref_of
from repro_kit.trace.record import Record

_AGAINST = re.compile(r"^(?P<id>(?:!\d+/)?\d+/\d+): (?P<guard>.*)", re.DOTALL)
_LIMIT = re.compile(
    r"(?P<which>accumulated_)?(?:recompile|cache_size)_limit.*?(?:\(?currently set to|of|reached) ?(?P<n>\d{1,9})", re.S
)
_HIT = re.compile(r"(?:recompile|cache_size)[_ ]limit|RecompileLimit", re.IGNORECASE)
_ALLOWED = re.compile(r'"(?P<name>recompile|cache_size)_limit": (?P<n>\d{1,18})')
_NAME = re.compile(r"(?:recompile|cache_size)_limit")
OLDER_NAME = "cache_size_limit"  # of `recompile_limit`
_USUAL_LIMIT = 8
_EXAMPLES = 20
_ROWS = 64  # rows of a table of values
_CELLS = 40
#: What a guard of a kind checks of its source, where the source alone does not say so.
_PROPERTY = {
    Guard.DTYPE: "{}.dtype",
    Guard.DEVICE: "{}.device",
    Guard.GRAD: "{}.requires_grad",
    Guard.RANK: "{}.dim()",
    Guard.TYPE: "type({})",
    Guard.DISPATCH: "dispatch keys of {}",
}


@dataclass(frozen=True)
class Reason:
    """A guard that failed.

    `compiles`: the compiles that the guard caused, since the entry of the cache that was nearest to the call has it.
    `remote`: it failed in entries only that differ more from the call, so that it caused nothing.
    """

    guard: GuardText
    size_related: bool
    count: int = 0  # recompiles for which torch names the guard
    compiles: tuple[CompileRef, ...] = ()
    against: tuple[str, ...] = ()  # compile ids that have the guard
    remote: bool = False


@dataclass(frozen=True)
class RecompileRow:
    """The values in one compile, in the order of the table's sources."""

    compile: CompileRef
    values: tuple[str, ...]


@dataclass(frozen=True)
class RecompileTable:
    """What changed between compiles: sizes, dtypes and values by source. An unknown value is empty."""

    sources: tuple[str, ...] = ()
    rows: tuple[RecompileRow, ...] = ()
    left_out: int = 0  # compiles that are not listed


@dataclass(frozen=True)
class Recompiled:
    """A function that was compiled more than once, and why.

    `limit` is the allowed number of compiles, from the trace or torch's default. `hits`: how often a compile was
    refused because of the limit; the call then runs in eager, or fails (`raised`). `near`: one or two more compiles
    will hit it.
    """

    name: str
    code: Frame | None
    count: int  # compiles after the first, without those that hit the limit
    compiles: tuple[CompileRef, ...] = ()
    reasons: tuple[Reason, ...] = ()
    values: RecompileTable = field(default_factory=RecompileTable)
    seconds: float = 0.0  # spent on compiles after the first
    limit: int = _USUAL_LIMIT
    hit: bool = False
    near: bool = False
    hits: int = 0
    raised: bool = False  # as torch does under fullgraph=True or fail_on_recompile_limit_hit
    setting: str = "recompile_limit"  # torch's name for the limit, as the log has it

    @property
    def key(self) -> CodeKey:
        """The identity of the code object in one process."""
        return self.compiles[0].code_key if self.compiles else ("", None, self.name, 0)

    @property
    def size_related(self) -> bool:
        """Whether every recompile was caused by a size."""
        return bool(self.reasons) and all(reason.size_related for reason in self.reasons)


@dataclass
class _Group:
    guard: GuardText
    count: int = 0
    compiles: dict[CompileRef, None] = field(default_factory=dict)
    against: dict[str, None] = field(default_factory=dict)


_General = tuple[str, str, str]  # what equal guards share: kind, source, text


@dataclass
class Recompiles:
    """Collects reasons of recompiles by function."""

    names: ClassVar = ("recompile_reasons", "compilation_metrics", "dynamo_cpp_guards_str", "create_symbol")

    index: CompileIndex
    groups: dict[CodeKey, dict[tuple[str, str, str], _Group]] = field(default_factory=dict)
    times: Counter[CodeKey] = field(default_factory=Counter)
    scalars: dict[CompileRef, dict[str, str]] = field(default_factory=dict)
    limits: dict[CodeKey, int] = field(default_factory=dict)
    failed: dict[CompileRef, list[tuple[str, _General]]] = field(default_factory=dict)  # by entry, as torch lists them
    hits: dict[CodeKey, set[CompileRef]] = field(default_factory=dict)
    names_of_limits: dict[CodeKey, str] = field(default_factory=dict)
    stated: set[CodeKey] = field(default_factory=set)  # that hit the limit of its own compiles, with its number
    raised: set[CodeKey] = field(default_factory=set)

    def see(self, record: Record) -> None:
        """Use recompile reasons, metrics about the limit, guards and symbols."""
        ref = ref_of(record)
        if ref is None:
            return
        if record.name == "recompile_reasons":
            self.add(ref, reasons_of(record))
        elif record.event == "compilation_metrics":
            allowed = _ALLOWED.search(record.text("dynamo_config"))
            if allowed:
                self.limits[ref.code_key] = int(allowed["n"])
                self.names_of_limits[ref.code_key] = f"{allowed['name']}_limit"
            self._limit(ref, f"{record.text('fail_type')}: {record.text('fail_reason')}")
        elif record.event == "dynamo_cpp_guards_str" and record.payload:
            self._values(ref, record.payload)
        elif record.name == "create_symbol":
            source, value = record.text("source"), record.text("val")
            if source and value and not self._described(ref, source):
                self.scalars.setdefault(ref, {})[source] = value

    def _described(self, ref: CompileRef, source: str) -> bool:
        """Whether `source` is a size that the description of the inputs already has."""
        return ".size()" in source and self.index.compiles[ref].described

    def add(self, ref: CompileRef, reasons: list[str]) -> None:
        """Record why `ref` was compiled. The first reason is the one against the newest cache entry."""
        key = ref.code_key
        self.times[key] += 1
        counted: set[tuple[str, str, str]] = set()  # several cached compiles may have the same guard
        for text in reasons:
            match = _AGAINST.match(text)
            guard = parse_guard(match["guard"] if match else text)
            guard = replace(guard, source=whole_source(guard.source))
            if not guard.text:
                continue
            general = guard.kind, guard.source, "" if guard.actual else guard.text
            group = self.groups.setdefault(key, {}).setdefault(general, _Group(guard))
            group.count += general not in counted
            counted.add(general)
            self.failed.setdefault(ref, []).append((match["id"] if match else "", general))
            if match and len(group.against) < _EXAMPLES:
                group.against.setdefault(match["id"])
            self._scalar(ref, match["id"] if match else "", guard)

    def _scalar(self, ref: CompileRef, against: str, guard: GuardText) -> None:
        """Record the value that an earlier compile saw, from a guard on it."""
        source = _PROPERTY.get(guard.kind, "{}").format(guard.source)
        if guard.actual:
            self.scalars.setdefault(ref, {}).setdefault(source, guard.actual)
        if (guard.kind == Guard.VALUE or guard.actual) and guard.source and guard.expected and against:
            earlier = replace(ref, compile_id=against)
            self.scalars.setdefault(earlier, {}).setdefault(source, guard.expected)

    def _values(self, ref: CompileRef, tree: str) -> None:
        """Record what the guards of `ref` expect of sources that caused recompiles before."""
        for kind, source, _ in self.groups.get(ref.code_key, {}):
            match = re.search(rf"EQUALS_MATCH: {re.escape(source)} == (.*?)(?:  #|$)", tree, re.MULTILINE)
            if kind == Guard.VALUE and match:
                self.scalars.setdefault(ref, {}).setdefault(source, match[1].strip())

    def _limit(self, ref: CompileRef, reason: str) -> None:
        """Record whether `ref` failed because of the recompile limit, and the limit."""
        if not _HIT.search(reason):
            return
        key = ref.code_key
        self.hits.setdefault(key, set()).add(ref)
        if AT_THE_LIMIT in reason:
            self.raised.add(key)
        name, match = _NAME.search(reason), _LIMIT.search(reason)
        if name:
            self.names_of_limits.setdefault(key, name[0])
        if match:
            self.limits[key] = int(match["n"])
            if not match["which"]:  # the other limit is for all compiles of a function together
                self.stated.add(key)

    def result(self) -> tuple[Recompiled, ...]:
        """The functions that were compiled again, those with most recompiles first."""
        functions = []
        for key in dict.fromkeys((*self.groups, *self.hits)):
            frame = self.index.frames.get(key)
            if frame is not None:
                functions.append(self._function(key, frame))
        return tuple(sorted(functions, key=lambda recompiled: -recompiled.count))

    def _blame(self, key: CodeKey, frame: CodeFrame) -> None:
        """Note for each recompile the guard that failed in the nearest entry of the cache."""
        known = {compile_.ref.compile_id: compile_ for compile_ in frame.compiles}
        for compile_ in frame.compiles:
            failed = self.failed.get(compile_.ref)
            if not failed:
                continue
            # torch lists the entry first that was used last; TORCH_LOGS=recompiles_verbose lists all guards of each
            guards = Counter(entry for entry, _ in failed)
            nearest = min(guards, key=lambda entry: (self._distance(frame, compile_, known.get(entry)), guards[entry]))
            for entry, general in failed:
                if entry == nearest:
                    self.groups[key][general].compiles.setdefault(compile_.ref)

    def _distance(self, frame: CodeFrame, one: CompileFacts, other: CompileFacts | None) -> int:
        """In how many known values two compiles differ."""
        if other is None or not (one.described and other.described):
            return 0
        mine, others = frame.tensors(one), frame.tensors(other)
        apart = sum(_values_apart(mine.get(source), others.get(source)) for source in {*mine, *others})
        values, known = self.scalars.get(one.ref, {}), self.scalars.get(other.ref, {})
        return apart + sum(values[source] != known[source] for source in values.keys() & known.keys())

    def _function(self, key: CodeKey, frame: CodeFrame) -> Recompiled:
        self._blame(key, frame)
        groups = self.groups.get(key, {}).values()
        caused: Counter[tuple[str, str]] = Counter()  # several values of one source are one cause
        for group in groups:
            caused[group.guard.kind, group.guard.source] += len(group.compiles)
        reasons = [self._reason(group) for group in sorted(groups, key=lambda group: _rank(group, caused))]
        made = len(frame.compiles)
        hits, limit = len(self.hits.get(key, ())), self.limits.get(key, _USUAL_LIMIT)
        again = max(self.times[key], made - 1, *(compile_.ref.number for compile_ in frame.compiles)) - hits
        if key in self.stated and not any(compile_.graphs for compile_ in frame.compiles):
            again = max(again, limit - 1)  # a text may tell of the limit only
        return Recompiled(
            frame.code.function if frame.code else "",
            frame.code,
            max(0, again),
            tuple(compile_.ref for compile_ in frame.compiles[:_ROWS]),
            tuple(reasons),
            self._table(frame, caused),
            sum(compile_.seconds + compile_.backward_us / 1e6 for compile_ in frame.compiles[1:]),
            limit,
            bool(hits),
            not hits and limit - 2 <= again + 1,
            hits,
            key in self.raised,
            self.names_of_limits.get(key, "recompile_limit"),
        )

    def _reason(self, group: _Group) -> Reason:
        guard = replace(group.guard, where=self.index.files.placed(group.guard.where))
        compiles, remote = tuple(islice(group.compiles, _EXAMPLES)), not group.compiles
        return Reason(guard, guard.size_related, group.count, compiles, tuple(group.against), remote)

    def _table(self, frame: CodeFrame, caused: Mapping[tuple[str, str], int]) -> RecompileTable:
        """Sizes, dtypes and values that differ between compiles, those first whose guards `caused` most of them."""
        rows = []
        for compile_ in frame.compiles[:_ROWS]:
            cells = dict(self.scalars.get(compile_.ref, {}))
            for source, spec in frame.tensors(compile_).items():
                if all(source not in other.tensors for other in frame.compiles):
                    continue
                cells |= {f"{source}.size()[{at}]": str(size) for at, size in enumerate(spec.sizes)}
                cells[f"{source}.dtype"] = spec.dtype
            rows.append((compile_.ref, cells))
        sources = dict.fromkeys(source for _, cells in rows for source in cells)
        changing = [source for source in sources if len({cells[source] for _, cells in rows if source in cells}) > 1][
            :_CELLS
        ]
        changing.sort(key=lambda source: -_share(source, caused))
        shown = tuple(RecompileRow(ref, tuple(cells.get(source, "") for source in changing)) for ref, cells in rows)
        return RecompileTable(tuple(changing), shown if changing else (), max(0, len(frame.compiles) - _ROWS))


def _rank(group: _Group, caused: Mapping[tuple[str, str], int]) -> tuple[bool, int, int, int]:
    """Its place among the reasons: first those whose source caused most recompiles."""
    guard = group.guard
    return not group.compiles, -caused[guard.kind, guard.source], -len(group.compiles), -group.count


def _share(source: str, caused: Mapping[tuple[str, str], int]) -> int:
    """How many recompiles guards on `source` caused; it may name a property: ``L['x'].dtype``."""
    return sum(number for (kind, guarded), number in caused.items() if guarded and source == _shown(kind, guarded))


def _shown(kind: str, source: str) -> str:
    return _PROPERTY.get(kind, "{}").format(source)


def _values_apart(one: TensorSpec | None, other: TensorSpec | None) -> int:
    if one is None or other is None:
        return int(one is not other)
    sizes: int = sum(bool(mine != its) for mine, its in zip_longest(one.sizes, other.sizes))
    return sizes + int(one.dtype != other.dtype) + int(one.device != other.device)


def reasons_of(record: Record) -> list[str]:
    """The reasons in a `recompile_reasons` artifact: a list, or one bare string."""
    data = record.json()
    if isinstance(data, list):
        return [str(reason) for reason in data]
    return [record.payload] if record.payload else []
