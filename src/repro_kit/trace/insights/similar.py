"""Similar graphs: compiles that run the same operations on the same kinds of tensors, and differ in sizes.

One graph with dynamic sizes could serve them all, be they of one function or of several modules of one class.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from repro_kit.model.failure.failure import Frame
from repro_kit.trace.graph_text import GraphInput, GraphShape, inputs_of
from repro_kit.trace.insights.compile_index import CompileIndex
from repro_kit.trace.places import CompileRef, ref_of
from repro_kit.trace.record import Record

_MEMBERS = 50  # of a group that are looked at
_GROUPS = 2000


@dataclass(frozen=True)
class Member:
    """One compile of a group, with its sizes where those differ."""

    compile: CompileRef
    code: Frame | None
    sizes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SimilarGraphs:
    """Compiles with the same operations. `inputs` names the tensors that differ (``l_x_``), in the order of `sizes`."""

    count: int
    ops: int
    inputs: tuple[str, ...]
    members: tuple[Member, ...]
    seconds: float = 0.0  # spent on all but the first

    @property
    def one_function(self) -> bool:
        """Whether they are all compiles of the same code object."""
        return len({member.compile.code_key for member in self.members}) == 1


def _concrete(it: GraphInput) -> tuple[str, ...]:
    """The sizes of `it`, one symbol like the other."""
    return tuple(size if size.isdigit() else "s" for size in it.sizes)


@dataclass
class _Group:
    count: int = 0
    seconds: float = 0.0
    members: list[tuple[CompileRef, tuple[GraphInput, ...]]] = field(default_factory=list)


@dataclass
class Similar:
    """Groups graphs by what they compute."""

    names: ClassVar = ("dynamo_output_graph",)

    known: CompileIndex
    groups: dict[GraphShape, _Group] = field(default_factory=dict)

    def see(self, record: Record) -> None:
        """Take a graph of Dynamo's; `known` has seen it before."""
        ref = ref_of(record)
        if record.event != "dynamo_output_graph" or ref is None:
            return
        one = self.known.compiles[ref]
        if one.shape is None or not one.shape.inputs or (one.shape not in self.groups and len(self.groups) >= _GROUPS):
            return
        group = self.groups.setdefault(one.shape, _Group())
        group.count += 1
        if len(group.members) < _MEMBERS:
            group.members.append((ref, inputs_of(record.payload or "")))

    def result(self) -> tuple[SimilarGraphs, ...]:
        """Groups of at least two whose sizes differ, those that took longest first."""
        found = []
        for shape, group in self.groups.items():
            first, _ = group.members[0]
            alone = [(ref, it) for ref, it in group.members if (ref.log, ref.rank) == (first.log, first.rank)]
            if len(alone) < 2:
                continue
            columns = list(zip(*(it for _, it in alone), strict=False))
            differing = [at for at, column in enumerate(columns) if len({_concrete(it) for it in column}) > 1]
            if not differing:
                continue
            members = tuple(
                Member(ref, self.known.code(ref), tuple(f"[{', '.join(it[at].sizes)}]" for at in differing))
                for ref, it in alone
            )
            names = tuple(columns[at][0].name for at in differing)
            seconds = sum(self.known.compiles[ref].seconds for ref, _ in alone[1:])
            found.append(SimilarGraphs(group.count, shape.ops, names, members, seconds))
        return tuple(sorted(found, key=lambda one: (-one.seconds, -one.count)))
