"""Guards: the checks before compiled code runs, by kind, source and user's line; their cost and differences."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from repro_kit.failure.failure import Frame
from repro_kit.trace.dynamo_text import Guard, GuardText, is_shape, parse_guard
from repro_kit.trace.insights.compile_index import CompileIndex
from repro_kit.trace.places import CompileRef, ref_of
from repro_kit.trace.record import Record

_LEAF = re.compile(r"^(?P<bars>[|\s]*)\+- (?P<name>\w+): (?P<text>.*)$")
_LATENCY = re.compile(r"Guard (?:eval )?latency = ([\d.]+) us")
_SOURCE = re.compile(r"source=(?P<source>.*?), accessed_by=")
_ADDRESS = re.compile(r"\b\d{9,}\b|0x[0-9a-f]{6,}|(?<=___)\d+(?='\])")
_SIZES = re.compile(r"size=\[(?P<size>[^\]]*)\], stride=\[(?P<stride>[^\]]*)\]")
_GROUPS = 10_000  # groups of guards that are kept
_EXAMPLES = 20
_SLOWEST = 10
_ON_SHAPES = ("LAMBDA_GUARD", "SYMBOLIC_SHAPE_GUARD", "GUARD")
_NAMED = {
    "TENSOR_MATCH": "tensor", "TYPE_MATCH": Guard.TYPE, "ID_MATCH": Guard.IDENTITY, "CLASS_MATCH": Guard.IDENTITY,
    "MODULE_MATCH": Guard.IDENTITY, "FUNCTION_MATCH": Guard.IDENTITY, "CLOSURE_MATCH": Guard.IDENTITY,
    "OBJECT_ALIASING": Guard.ALIASING, "NO_TENSOR_ALIASING": Guard.ALIASING, "GLOBAL_STATE": Guard.STATE,
    "DEFAULT_DEVICE": Guard.STATE, "TORCH_FUNCTION_MODE_STACK": Guard.STATE, "EQUALS_MATCH": Guard.VALUE,
    "CONSTANT_MATCH": Guard.VALUE, "NONE_MATCH": Guard.VALUE, "TRUE_MATCH": Guard.VALUE, "FALSE_MATCH": Guard.VALUE,
    "DICT_CONTAINS": Guard.PRESENCE, "LENGTH_CHECK": Guard.PRESENCE, "DICT_LENGTH": Guard.PRESENCE,
    "NO_HASATTR": Guard.PRESENCE, "HASATTR": Guard.PRESENCE, "DYNAMIC_INDICES": Guard.MARKING,
    "DIMENSION_DYNAMIC_MARKING_GUARD": Guard.MARKING, "DICT_VERSION": Guard.PRESENCE, "WEAKREF_ALIVE": Guard.IDENTITY,
}  # fmt: skip


@dataclass(frozen=True)
class GuardGroup:
    """Guards with the same check in `count` compiles. `name`: torch's name of the check (``TENSOR_MATCH``)."""

    name: str
    kind: str
    source: str
    text: str
    where: Frame | None = None
    count: int = 0
    compiles: tuple[CompileRef, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class DynamicSize:
    """A tensor that is guarded with dynamic sizes: ``None`` allows any size."""

    source: str
    sizes: str  # "[None, 4]"
    compile: CompileRef


@dataclass(frozen=True)
class Differing:
    """Guards, not about size, in which compiles of the same graph differ: some compiles lack each of `texts`."""

    name: str
    code: Frame | None
    compiles: tuple[CompileRef, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True)
class GuardCost:
    """The time to check the guards of one compile."""

    compile: CompileRef
    latency_us: float
    guards: int


@dataclass(frozen=True)
class Guards:
    """All guards of a trace. `shapes`: guards on sizes. `left_out`: how many were not kept, because of the limit."""

    total: int = 0
    groups: tuple[GuardGroup, ...] = ()
    shapes: tuple[GuardGroup, ...] = ()
    dynamic: tuple[DynamicSize, ...] = ()
    differing: tuple[Differing, ...] = ()
    costly: tuple[GuardCost, ...] = ()
    left_out: int = 0


class GuardLeaf(NamedTuple):
    """One check of a guard tree."""

    name: str
    source: str
    text: str  # with torch's comment


@dataclass
class _Group:
    leaf: GuardLeaf
    guard: GuardText
    count: int = 0
    compiles: dict[CompileRef, None] = field(default_factory=dict)


@dataclass
class GuardTrees:
    """Collects the guards of all compiles."""

    names: ClassVar = ("dynamo_cpp_guards_str",)

    index: CompileIndex
    groups: dict[tuple[str, str, str], _Group] = field(default_factory=dict)
    of: dict[CompileRef, bytes] = field(default_factory=dict)  # numbers of the groups in each compile, four bytes each
    dynamic: dict[tuple[str, str], DynamicSize] = field(default_factory=dict)
    costs: list[GuardCost] = field(default_factory=list)
    total: int = 0
    left_out: int = 0
    _ids: dict[tuple[str, str, str], int] = field(default_factory=dict)
    _keys: dict[GuardLeaf, tuple[str, str, str]] = field(default_factory=dict)  # most leaves repeat exactly
    _sets: dict[bytes, bytes] = field(default_factory=dict)

    def see(self, record: Record) -> None:
        """Use a printed guard tree."""
        ref = ref_of(record)
        if record.event == "dynamo_cpp_guards_str" and record.payload and ref is not None:
            self.add(ref, record.payload)

    def add(self, ref: CompileRef, text: str) -> None:
        """Count the guards of `ref`."""
        checks, count = [], 0
        for leaf in leaves(text):
            count += 1
            checks.append(self._leaf(ref, leaf))
        self.total += count
        latency = _LATENCY.search(text)
        self._cost(GuardCost(ref, float(latency[1]) if latency else 0.0, count))
        kept = array("I", sorted({check for check in checks if check >= 0})).tobytes()
        self.of[ref] = self._sets.setdefault(kept, kept)

    def _leaf(self, ref: CompileRef, leaf: GuardLeaf) -> int:
        key = self._keys.get(leaf) or self._key(leaf)
        group = self.groups.get(key)
        if group is None:
            if len(self.groups) >= _GROUPS:
                self.left_out += 1
                return -1
            guard = parse_guard(key[2])
            group = self.groups[key] = _Group(leaf, guard)
            self._ids[key] = len(self._ids)
            sizes = _SIZES.search(guard.text) if leaf.name == "TENSOR_MATCH" else None
            if sizes and "None" in sizes["size"]:
                self.dynamic.setdefault(
                    (leaf.source, sizes["size"]), DynamicSize(leaf.source, f"[{sizes['size']}]", ref)
                )
        group.count += 1
        if len(group.compiles) < _EXAMPLES:
            group.compiles.setdefault(ref)
        return self._ids[key]

    def _key(self, leaf: GuardLeaf) -> tuple[str, str, str]:
        """The identity of a check in different runs: everything except addresses."""
        key = leaf.name, leaf.source, _ADDRESS.sub("…", leaf.text)
        if len(self._keys) < 2 * _GROUPS:
            self._keys[leaf] = key
        return key

    def _cost(self, cost: GuardCost) -> None:
        self.costs.append(cost)
        if len(self.costs) > 10 * _SLOWEST:
            self.costs = self._slowest()

    def _slowest(self) -> list[GuardCost]:
        return sorted(self.costs, key=lambda cost: (-cost.latency_us, -cost.guards))[:_SLOWEST]

    def result(self) -> Guards:
        """The collected guards, the most frequent first."""
        groups = sorted((self._group(group) for group in self.groups.values()), key=lambda group: -group.count)
        return Guards(
            self.total,
            tuple(group for group in groups if not _on_shape(group)),
            tuple(group for group in groups if _on_shape(group)),
            tuple(self.dynamic.values()),
            tuple(self._differing()),
            tuple(self._slowest()),
            self.left_out,
        )

    def _group(self, group: _Group) -> GuardGroup:
        guard, leaf = group.guard, group.leaf
        kind = _NAMED.get(leaf.name, guard.kind)
        where = self.index.files.placed(guard.where)
        source = leaf.source or (guard.source if guard.source[:2] in ("L[", "G[") else "")
        return GuardGroup(leaf.name, kind, source, guard.text, where, group.count, tuple(group.compiles), guard.note)

    def _differing(self) -> Iterator[Differing]:
        """Compiles of one function with the same graph, but with guards that differ not only in sizes."""
        groups = list(self.groups.values())
        for frame in self.index.frames.values():
            alike: dict[object, list[CompileRef]] = {}
            for compile_ in frame.compiles:
                if compile_.shape is not None and compile_.ref in self.of:
                    alike.setdefault(compile_.shape, []).append(compile_.ref)
            for refs in alike.values():
                sets = [frozenset(array("I", self.of[ref])) for ref in refs]
                apart = frozenset().union(*sets) - frozenset.intersection(*sets)
                texts = [groups[at] for at in sorted(apart) if not _about_size(groups[at])]
                if texts and frame.code:
                    shown = dict.fromkeys(f"{text.leaf.name}: {text.guard.text}" for text in texts[:_EXAMPLES])
                    yield Differing(frame.code.function, frame.code, tuple(refs[:_EXAMPLES]), tuple(shown))


def _on_shape(group: GuardGroup) -> bool:
    return group.name in _ON_SHAPES and is_shape(group.text)


def _about_size(group: _Group) -> bool:
    return is_shape(group.guard.text) or group.leaf.name == "TENSOR_MATCH" or group.guard.kind == Guard.MARKING


def leaves(text: str) -> Iterator[GuardLeaf]:
    """The checks of a printed guard tree, each with the source of its manager."""
    sources: list[str] = []
    for line in text.split("\n"):
        match = _LEAF.match(line)
        if not match:
            continue
        depth = match["bars"].count("|")
        name = match["name"]
        del sources[depth:]
        sources += [""] * (depth - len(sources))
        if name.endswith("Manager"):
            source = _SOURCE.search(match["text"])
            sources.append(source["source"] if source else "")
        else:
            yield GuardLeaf(
                name, next((named_source for named_source in reversed(sources) if named_source), ""), match["text"]
            )
