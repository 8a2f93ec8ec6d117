"""Similar graphs: compiles with the same operations on the same kinds of tensors, but with other sizes.

One graph with dynamic sizes could replace them, whether they belong to one function or to several modules of a class.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from repro_kit.model.failure.failure import Frame
from repro_kit.trace.graph_text import GraphInput, GraphShape, inputs_of
from repro_kit.trace.insights.compile_index import CompileIndex
from repro_kit.trace.places import CompileRef, ref_of
from repro_kit.trace.record import Record

_MEMBERS = 50  # members of a group that are kept
_GROUPS = 2000


@dataclass(frozen=True)
class SimilarMember:
    """One compile of a group, with the sizes that differ."""

    compile: CompileRef
    code: Frame | None
    sizes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SimilarGraphs:
    """Compiles with the same operations. `inputs`: the tensors that differ (``l_x_``), in the order of `sizes`."""

    count: int
    ops: int
    inputs: tuple[str, ...]
    members: tuple[SimilarMember, ...]
    seconds: float = 0.0  # time of all compiles but the first

    @property
    def one_function(self) -> bool:
        """Whether all compiles belong to the same code object."""
        return len({member.compile.code_key for member in self.members}) == 1


def _concrete(graph_input: GraphInput) -> tuple[str, ...]:
    """The sizes of `graph_input`, with all symbols equal."""
    return tuple(size if size.isdigit() else "s" for size in graph_input.sizes)


@dataclass
class _Group:
    count: int = 0
    seconds: float = 0.0
    members: list[tuple[CompileRef, tuple[GraphInput, ...]]] = field(default_factory=list)


@dataclass
class Similar:
    """Groups graphs with the same operations."""

    names: ClassVar = ("dynamo_output_graph",)

    index: CompileIndex
    groups: dict[GraphShape, _Group] = field(default_factory=dict)

    def see(self, record: Record) -> None:
        """Use a graph of Dynamo; `index` has already seen the record."""
        ref = ref_of(record)
        if record.event != "dynamo_output_graph" or ref is None:
            return
        compile_ = self.index.compiles[ref]
        if (
            compile_.shape is None
            or not compile_.shape.inputs
            or (compile_.shape not in self.groups and len(self.groups) >= _GROUPS)
        ):
            return
        group = self.groups.setdefault(compile_.shape, _Group())
        group.count += 1
        if len(group.members) < _MEMBERS:
            group.members.append((ref, inputs_of(record.payload or "")))

    def result(self) -> tuple[SimilarGraphs, ...]:
        """Groups of at least two graphs with different sizes, the slowest first."""
        similar = []
        for shape, group in self.groups.items():
            first, _ = group.members[0]
            alone = [(ref, inputs) for ref, inputs in group.members if (ref.log, ref.rank) == (first.log, first.rank)]
            if len(alone) < 2:
                continue
            columns = list(zip(*(inputs for _, inputs in alone), strict=False))
            differing = [at for at, column in enumerate(columns) if len({_concrete(inputs) for inputs in column}) > 1]
            if not differing:
                continue
            members = tuple(
                SimilarMember(ref, self.index.code(ref), tuple(f"[{', '.join(inputs[at].sizes)}]" for at in differing))
                for ref, inputs in alone
            )
            names = tuple(columns[at][0].name for at in differing)
            seconds = sum(self.index.compiles[ref].seconds for ref, _ in alone[1:])
            similar.append(SimilarGraphs(group.count, shape.ops, names, members, seconds))
        return tuple(sorted(similar, key=lambda graphs: (-graphs.seconds, -graphs.count)))
