"""Specializations: sizes and numbers that should have been symbolic, but became constants."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar

from repro_kit.failure.failure import Frame
from repro_kit.trace.dynamo_text import Guard, parse_guard, whole_source
from repro_kit.trace.insights.compile_index import CompileIndex
from repro_kit.trace.insights.recompiles import reasons_of
from repro_kit.trace.places import CompileRef, framework_frame, ref_of, user_frame
from repro_kit.trace.record import Record

_EQUAL = re.compile(r"(?P<one>[^=<>!]+\.size\(\)\[\d+\]) == (?P<other>[^=<>!]+\.size\(\)\[\d+\])")
_MARKED = re.compile(
    r"You marked (?P<source>[LG]\[.*?) as dynamic but your code specialized it to be a constant \((?P<value>[^)]*)\)"
)
_DIMENSION = re.compile(r"(?P<tensor>.+)\.size\(\)\[(?P<at>\d{1,9})\]$")
_EXAMPLES = 20
_BOUNDED = 1000


class Cause(StrEnum):
    """Why a symbol became a constant."""

    CODE = "code"  # the user's or the framework's code needed the value
    DUCK = "duck shaping"  # two sizes happened to be equal, so torch treats them as one
    ZERO_ONE = "0/1"  # sizes 0 and 1 are always constants
    VIOLATED = "mark_dynamic violated"


@dataclass(frozen=True)
class Specialization:
    """A size or number that became a constant, with the user's line and the line in torch that caused it."""

    cause: Cause
    sources: tuple[str, ...]
    value: str
    symbol: str = ""
    where: Frame | None = None
    framework: Frame | None = None
    reason: str = ""  # in torch's words
    code: Frame | None = None  # the function that was compiled
    count: int = 0
    compiles: tuple[CompileRef, ...] = ()


@dataclass
class _Group:
    specialization: Specialization
    count: int = 0
    compiles: dict[CompileRef, None] = field(default_factory=dict)


@dataclass
class Specializations:
    """Collects specializations by source and line."""

    names: ClassVar = (
        "symbolic_shape_specialization", "dynamo_error", "recompile_reasons", "dynamo_cpp_guards_str"
    )  # fmt: skip

    index: CompileIndex
    groups: dict[tuple[object, ...], _Group] = field(default_factory=dict)
    bounded: list[tuple[CompileRef, str, Frame | None]] = field(default_factory=list)  # decided when sizes are known

    def see(self, record: Record) -> None:
        """Use what the trace says about specializations, directly or indirectly."""
        ref = ref_of(record)
        if ref is None:
            return
        if record.event == "symbolic_shape_specialization":
            self._outright(ref, record)
        elif record.name == "dynamo_error" and record.payload:
            self._violated(ref, record.payload)
        elif record.name == "recompile_reasons":
            self.recompiled(ref, reasons_of(record))
        elif record.event == "dynamo_cpp_guards_str" and record.payload and "duck sizing" in record.payload:
            self.ducks(ref, record.payload.split("\n"))

    def _outright(self, ref: CompileRef, record: Record) -> None:
        sources = record.fields.get("sources")
        specialization = Specialization(
            Cause.CODE,
            tuple(str(source) for source in sources) if isinstance(sources, list) else (),
            record.text("value"),
            record.text("symbol"),
            user_frame(record.frames("user_stack")) or user_frame(record.frames("stack")),
            framework_frame(record.frames("stack")),
            record.text("reason"),
        )
        self.add(ref, specialization)

    def _violated(self, ref: CompileRef, text: str) -> None:
        for marked in _MARKED.finditer(text):
            sources = (marked["source"],)
            earlier = next(
                (
                    group.specialization
                    for group in self.groups.values()
                    if group.specialization.sources == sources and ref in group.compiles
                ),
                None,
            )
            specialization = earlier or Specialization(Cause.VIOLATED, sources, marked["value"])
            self.add(ref, replace(specialization, cause=Cause.VIOLATED, reason=marked[0]))

    def recompiled(self, ref: CompileRef, reasons: Iterable[str]) -> None:
        """Use recompiles because a size was, or now is, 0 or 1."""
        for reason in reasons:
            guard = parse_guard(reason.partition(": ")[2])
            if guard.kind != Guard.SIZE or guard.note == "duck sizing":
                continue
            source = whole_source(guard.source)
            is_plain = guard.actual or guard.text.startswith(f"{guard.source} == ")  # else a term of the size
            value = next((bound for bound in (guard.expected, guard.actual) if bound in ("0", "1")), None)
            if value is not None and is_plain:
                self.add(ref, Specialization(Cause.ZERO_ONE, (source,), value, where=guard.where))
            elif guard.text.startswith("2 <=") and len(self.bounded) < _BOUNDED:
                self.bounded.append((ref, source, guard.where))

    def _size(self, ref: CompileRef, source: str) -> str:
        """The size of `source` in the compile `ref`."""
        match = _DIMENSION.match(source)
        compile_ = self.index.compiles.get(ref)
        spec = self.index.frame(ref).tensors(compile_).get(match["tensor"]) if match and compile_ else None
        at = int(match["at"]) if match else 0
        return str(spec.sizes[at]) if spec and at < len(spec.sizes) else ""

    def ducks(self, ref: CompileRef, lines: Iterable[str]) -> None:
        """Use guards that torch added because two sizes were equal."""
        for line in lines:
            equal = _EQUAL.search(line) if "duck sizing" in line else None
            if equal:
                size = re.search(r"same size (\d+)", line)
                pair = tuple(part.split(": ")[-1].strip() for part in (equal["one"], equal["other"]))
                self.add(ref, Specialization(Cause.DUCK, pair, size[1] if size else ""))

    def add(self, ref: CompileRef, specialization: Specialization) -> None:
        """Count one specialization."""
        key = (
            specialization.cause,
            specialization.sources,
            specialization.value,
            specialization.where,
            self.index.code(ref),
        )
        group = self.groups.setdefault(key, _Group(specialization))
        group.count += 1
        if len(group.compiles) < _EXAMPLES:
            group.compiles.setdefault(ref)

    def result(self) -> tuple[Specialization, ...]:
        """All specializations, in the order in which they appeared."""
        for ref, source, where in self.bounded:
            if self._size(ref, source) in ("0", "1"):
                self.add(ref, Specialization(Cause.ZERO_ONE, (source,), self._size(ref, source), where=where))
        self.bounded.clear()
        return tuple(
            replace(
                group.specialization,
                where=self.index.files.placed(group.specialization.where),
                code=self.index.code(next(iter(group.compiles))),
                count=group.count,
                compiles=tuple(group.compiles),
            )
            for group in self.groups.values()
        )
