"""Graph breaks: where in the user's code, why in plain words, what torch suggests, and what they cost."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import ClassVar

from repro_kit.model.failure.failure import Frame
from repro_kit.trace.break_text import GraphBreak, parse
from repro_kit.trace.insights.compile_index import CompileIndex
from repro_kit.trace.places import CompileRef, ref_of
from repro_kit.trace.record import Record

_RESUMED = re.compile(r"^torch_dynamo_resume_in_(?P<function>.+)_at_(?P<line>\d{1,9})$")
_EXAMPLES = 20  # compiles that are named of one break


@dataclass
class _Group:
    reason: GraphBreak
    count: int = 0
    compiles: dict[CompileRef, None] = field(default_factory=dict)


@dataclass
class GraphBreaks:
    """Collects them by place and kind."""

    names: ClassVar = ("dynamo_graph_break_reason",)

    known: CompileIndex
    groups: dict[tuple[str, Frame | None, bool], _Group] = field(default_factory=dict)

    def see(self, record: Record) -> None:
        """Take a graph break's artifact."""
        if record.name == "dynamo_graph_break_reason" and record.payload:
            self.add(parse(record.payload), ref_of(record))

    def add(self, one: GraphBreak, ref: CompileRef | None) -> None:
        """Count one graph break; a later note that its frame is skipped takes its place."""
        key = one.kind, one.where, one.skipped
        told = self.groups.get((one.kind, one.where, False)) if one.skipped else None
        if told is not None and ref in told.compiles:
            told.count -= 1
            del told.compiles[ref]
        group = self.groups.setdefault(key, _Group(one))
        group.count += 1
        if ref is not None and len(group.compiles) < _EXAMPLES:
            group.compiles.setdefault(ref)

    def result(self) -> tuple[GraphBreak, ...]:
        """All of them, those with most extra graphs first."""
        resumed = _resumed(self.known)
        found = []
        for group in self.groups.values():
            if not group.count:
                continue
            stack = () if group.reason.skipped else dict.fromkeys(group.reason.stack)
            extra = sum(resumed.get((frame.file, frame.line), 0) for frame in stack)
            found.append(replace(group.reason, count=group.count, compiles=tuple(group.compiles), extra_graphs=extra))
        return tuple(sorted(found, key=lambda one: (-one.extra_graphs, -one.count)))


def _resumed(known: CompileIndex) -> dict[tuple[str, int], int]:
    """How many graphs were compiled of the rest of a function, by the line at which it goes on."""
    counts: dict[tuple[str, int], int] = {}
    for compile_ in known.compiles.values():
        found = _RESUMED.match(compile_.name)
        if found and compile_.code and compile_.graphs:
            place = compile_.code.file, int(found["line"])
            counts[place] = counts.get(place, 0) + 1
    return counts
