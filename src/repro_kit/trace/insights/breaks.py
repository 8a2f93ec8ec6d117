"""Graph breaks and failed compiles: where in the user's code, why, and what they cost."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from repro_kit.failure.failure import Frame
from repro_kit.trace.dynamo_text import GraphBreak, parse, user_stack
from repro_kit.trace.insights.compile_index import CompileIndex
from repro_kit.trace.places import CompileRef, ref_of, user_frame
from repro_kit.trace.record import Record

if TYPE_CHECKING:
    from repro_kit.trace.compiles import CompileFailure, Compiles


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
    groups: dict[tuple[str, tuple[str, int] | None, bool], _Group] = field(default_factory=dict)

    def see(self, record: Record) -> None:
        """Use the artifact of a graph break."""
        if record.name == "dynamo_graph_break_reason" and record.payload:
            self.add(parse(record.payload), ref_of(record))

    def add(self, graph_break: GraphBreak, ref: CompileRef | None) -> None:
        """Count one graph break. A later record that its frame is skipped replaces the first one."""
        line = _line(graph_break.where)
        key = graph_break.kind, line, graph_break.skipped
        earlier = self.groups.get((graph_break.kind, line, False)) if graph_break.skipped else None
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
        broken = {_line(group.reason.where) for group in self.groups.values() if group.count}
        breaks = []
        for group in self.groups.values():
            if not group.count:
                continue
            stack = () if group.reason.skipped else dict.fromkeys(group.reason.stack)
            extra = sum(resumed.get((frame.file, frame.line), 0) for frame in stack)
            opened = group.reason.caller is not None and _line(group.reason.caller) in broken
            breaks.append(
                replace(
                    group.reason,
                    count=group.count,
                    compiles=tuple(group.compiles),
                    extra_graphs=extra,
                    opened=opened,
                )
            )
        return tuple(
            sorted(breaks, key=lambda one: (one.opened, -one.extra_graphs, -one.count))
        )  # what another break opened comes last


def _line(frame: Frame | None) -> tuple[str, int] | None:
    return (frame.file, frame.line) if frame else None


def _resumed(index: CompileIndex) -> dict[tuple[str, int], int]:
    """How many graphs were compiled for the rest of a function, by the line where it resumes."""
    counts: dict[tuple[str, int], int] = {}
    for compile_ in index.compiles.values():
        match = _RESUMED.match(compile_.name)
        if match and compile_.code and compile_.graphs:
            line = compile_.code.file, int(match["line"])
            counts[line] = counts.get(line, 0) + 1
    return counts


class ExportKind:
    """Kinds of what torch.export records while it goes on (torch/export/_draft_export.py)."""

    DATA = "data-dependent expression"
    GUARD = "guard that was evaluated"
    MISSING = "missing fake kernel"
    MISMATCHED = "wrong fake kernel"


@dataclass(frozen=True)
class ExportProblem:
    """Something that `draft_export` worked around: an expression on data, or an operator's fake kernel."""

    kind: str
    what: str
    result: str = ""  # the value that was assumed, or why the kernels differ
    where: Frame | None = None
    count: int = 0


@dataclass
class ExportProblems:
    """Collects what `draft_export` worked around, by kind and place. Guards count only in the trace of an export."""

    names: ClassVar = (
        "propagate_real_tensors_provenance", "guard_added", "missing_fake_kernel", "mismatched_fake_kernel",
        "exported_program",
    )  # fmt: skip

    counts: dict[ExportProblem, int] = field(default_factory=dict)
    exported: bool = False

    def see(self, record: Record) -> None:
        """Use a record of an export."""
        self.exported |= record.event not in ("guard_added", "artifact")
        where = user_frame(record.frames("user_stack"))
        match record.event:
            case "propagate_real_tensors_provenance":
                problem = ExportProblem(ExportKind.DATA, record.text("expr"), record.text("result"), where)
            case "guard_added" if record.text("prefix") == "eval":
                problem = ExportProblem(ExportKind.GUARD, record.text("expr"), "", where)
            case "missing_fake_kernel":
                problem = ExportProblem(ExportKind.MISSING, record.text("op"), "", where)
            case "mismatched_fake_kernel":
                problem = ExportProblem(ExportKind.MISMATCHED, record.text("op"), record.text("reason"), where)
            case _:
                return
        if problem in self.counts or len(self.counts) < _MOST_PROBLEMS:
            self.counts[problem] = self.counts.get(problem, 0) + 1

    def result(self) -> tuple[ExportProblem, ...]:
        """What an export worked around; nothing for a trace without an export."""
        return tuple(replace(problem, count=count) for problem, count in self.counts.items()) if self.exported else ()


_MOST_PROBLEMS = 200
_MOST_COMPILES = 20


@dataclass(frozen=True)
class FailedCompile:
    """A failure of one or several compiles. `soft`: it is an error only because of ``fullgraph=True``."""

    type: str
    reason: str
    where: Frame | None = None
    stack: tuple[Frame, ...] = ()
    soft: bool = False
    backward: bool = False
    count: int = 0
    compiles: tuple[CompileRef, ...] = ()


@dataclass
class _SameFailure:
    first: CompileFailure
    count: int = 0
    compiles: list[CompileRef] = field(default_factory=list)


def grouped(outcomes: Compiles) -> tuple[FailedCompile, ...]:
    """The failures of a trace; equal failures are merged."""
    groups: dict[tuple[object, ...], _SameFailure] = {}
    for failure in outcomes.failures():
        group = groups.setdefault(
            (failure.type, failure.reason, failure.where, failure.backward), _SameFailure(failure)
        )
        group.count += 1
        if len(group.compiles) < _MOST_COMPILES:
            group.compiles.append(CompileRef(failure.compile_id, failure.rank, failure.log, failure.epoch))
    return tuple(_merged(group) for group in groups.values())


def _merged(group: _SameFailure) -> FailedCompile:
    failure = group.first
    stack = user_stack(failure.text)
    where = stack[-1] if stack else failure.where
    return FailedCompile(
        failure.type, failure.reason, where, stack, failure.soft, failure.backward, group.count, tuple(group.compiles)
    )
