"""Graph breaks: where in the user's code, why, what torch suggests, and what they cost."""

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
_EXAMPLES = 20  # compiles that are listed for one break


@dataclass
class _Group:
    reason: GraphBreak
    count: int = 0
    compiles: dict[CompileRef, None] = field(default_factory=dict)


@dataclass
class GraphBreaks:
    """Collects graph breaks by place and kind."""

    names: ClassVar = ("dynamo_graph_break_reason",)

    index: CompileIndex
    groups: dict[tuple[str, Frame | None, bool], _Group] = field(default_factory=dict)

    def see(self, record: Record) -> None:
        """Use the artifact of a graph break."""
        if record.name == "dynamo_graph_break_reason" and record.payload:
            self.add(parse(record.payload), ref_of(record))

    def add(self, graph_break: GraphBreak, ref: CompileRef | None) -> None:
        """Count one graph break. A later record that its frame is skipped replaces the first one."""
        key = graph_break.kind, graph_break.where, graph_break.skipped
        earlier = self.groups.get((graph_break.kind, graph_break.where, False)) if graph_break.skipped else None
        if earlier is not None and ref in earlier.compiles:
            earlier.count -= 1
            del earlier.compiles[ref]
        group = self.groups.setdefault(key, _Group(graph_break))
        group.count += 1
        if ref is not None and len(group.compiles) < _EXAMPLES:
            group.compiles.setdefault(ref)

    def result(self) -> tuple[GraphBreak, ...]:
        """All graph breaks, those with most extra graphs first."""
        resumed = _resumed(self.index)
        breaks = []
        for group in self.groups.values():
            if not group.count:
                continue
            stack = () if group.reason.skipped else dict.fromkeys(group.reason.stack)
            extra = sum(resumed.get((frame.file, frame.line), 0) for frame in stack)
            breaks.append(replace(group.reason, count=group.count, compiles=tuple(group.compiles), extra_graphs=extra))
        return tuple(sorted(breaks, key=lambda graph_break: (-graph_break.extra_graphs, -graph_break.count)))


def _resumed(index: CompileIndex) -> dict[tuple[str, int], int]:
    """How many graphs were compiled for the rest of a function, by the line where it resumes."""
    counts: dict[tuple[str, int], int] = {}
    for compile_ in index.compiles.values():
        match = _RESUMED.match(compile_.name)
        if match and compile_.code and compile_.graphs:
            line = compile_.code.file, int(match["line"])
            counts[line] = counts.get(line, 0) + 1
    return counts
