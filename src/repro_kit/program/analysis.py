"""Relations between the statements of a base program, computed once for all edits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from repro_kit.program.effects import Effects, effects_of, families, groups, is_transform
from repro_kit.program.inputs import Input, names_of
from repro_kit.program.program import Program
from repro_kit.program.statement import Statement


class Base:
    """A program that does not change, and the relations between the statements of its graph (by index)."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.statements: Sequence[Statement] = program.graph.statements
        self.params = frozenset(program.graph.params)
        self.index = {
            statement.target: at for at, statement in enumerate(self.statements) if statement.target is not None
        }
        local = self.params | set(self.index)
        self.reads = [tuple(name for name in statement.reads if name in local) for statement in self.statements]
        self.outputs = tuple(name for name in program.graph.outputs if name in local)
        self.effects: Sequence[Effects] = [self._effects(at) for at in range(len(self.statements))]

    def _effects(self, at: int) -> Effects:
        statement = self.statements[at]
        effects = effects_of(statement)
        if effects.state or effects.mutates or statement.target is None:
            return effects
        callee = statement.text.partition("(")[0]
        custom = ("torch.ops." in callee or "._" in callee) and not callee.startswith(_PURE)
        # Nobody reads its value, so the program called it for an effect.
        unread = custom and statement.target not in self._read
        return Effects(state=True, view=effects.view) if unread else effects

    @cached_property
    def _read(self) -> frozenset[str]:
        return frozenset(name for reads in self.reads for name in reads) | set(self.outputs)

    @cached_property
    def families(self) -> dict[str, frozenset[str]]:
        """For every mutated value: the names that may share its memory."""
        root = families(self.statements, self.effects)
        members: dict[str, set[str]] = {}
        for name, representative in root.items():
            members.setdefault(representative, set()).add(name)
        mutated = {name for effects in self.effects for name in effects.mutates}
        return {name: frozenset(members.get(root.get(name, name), ())) | {name} for name in mutated}

    @cached_property
    def effective(self) -> frozenset[int]:
        """Statements that may matter although nobody reads their value."""
        return frozenset(at for at, effects in enumerate(self.effects) if effects.state or effects.mutates)

    @cached_property
    def states(self) -> list[tuple[int, ...]]:
        """Statements that set state, in groups that must stay together (an enter with its exit)."""
        return groups(self.statements, [at for at, effects in enumerate(self.effects) if effects.state])

    @cached_property
    def units(self) -> list[tuple[int, ...]]:
        """All other statements. A statement with several results and the getitems of its results are one unit."""
        owner: dict[str, int] = {}
        units: dict[int, list[int]] = {}
        in_state = {at for group in self.states for at in group}
        for at, statement in enumerate(self.statements):
            if at in in_state:
                continue
            part = statement.getitem
            first = owner[part[0]] if part is not None and part[0] in owner else at
            units.setdefault(first, []).append(at)
            if statement.target is not None:
                owner[statement.target] = first
        return [tuple(unit) for unit in units.values()]

    @cached_property
    def regions(self) -> list[tuple[int, int]]:
        """(first, last) statement of each outermost functorch level. A cut must not fall inside."""
        regions: list[tuple[int, int]] = []
        for group in self.states:
            if len(group) > 1 and is_transform(self.statements[group[0]]):
                first, last = group[0], group[-1]
                if not regions or first > regions[-1][1]:
                    regions.append((first, last))
        return regions

    @cached_property
    def line_of(self) -> dict[str, Input]:
        """For each name of an input: the line of `calls()` that binds it."""
        return {name: line for line in self.program.inputs for name in names_of(line)}

    @cached_property
    def taken(self) -> frozenset[str]:
        """Names that a new input must avoid."""
        return frozenset(self.line_of)


_PURE = ("torch.ops.aten.", "torch.ops.prims.", "torch.ops.higher_order.", "torch._C._nn.", "torch._C._linalg.")
