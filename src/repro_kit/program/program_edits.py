"""Edits: changes to a base program that propose a smaller one. The base stays unchanged.

An edit records itself in a `Plan`, and `rebuild` makes the program of a plan. A new kind of edit is a new class here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from repro_kit.program.analysis import Base
from repro_kit.program.inputs import Data, TensorInput
from repro_kit.program.program import Program
from repro_kit.program.rebuild import Plan, rebuild
from repro_kit.program.resize import resized
from repro_kit.program.value_records import Metadata


class Edit(Protocol):
    """One change to a program."""

    def put(self, plan: Plan) -> Plan:
        """`plan` with this change."""
        ...


@dataclass(frozen=True)
class Remove:
    """Drop statements (indices into the base's graph). Their values become inputs where they are still needed."""

    statements: frozenset[int]

    def put(self, plan: Plan) -> Plan:
        """`plan` with this change."""
        return replace(plan, removed=plan.removed | self.statements)


@dataclass(frozen=True)
class Bypass:
    """Replace each of these values (of a statement or an input) by the earlier value that it maps to."""

    values: Mapping[str, str] = field(hash=False)

    def put(self, plan: Plan) -> Plan:
        """`plan` with this change."""
        return replace(plan, bypass={**plan.bypass, **self.values})


@dataclass(frozen=True)
class Outputs:
    """Return these values, as a flat tuple."""

    values: tuple[str, ...]

    def put(self, plan: Plan) -> Plan:
        """`plan` with this change."""
        return replace(plan, outputs=self.values)


@dataclass(frozen=True)
class SetData:
    """Give an input other values."""

    input: str
    data: Data
    dtype: str | None = None  # for an input whose values were stored, so that its line has no dtype
    device: str | None = None

    def put(self, plan: Plan) -> Plan:
        """`plan` with this change."""

        def change(line: TensorInput) -> TensorInput:
            return replace(line, data=self.data, dtype=line.dtype or self.dtype, device=line.device or self.device)

        return replace(plan, lines={**plan.lines, self.input: (*plan.lines.get(self.input, ()), change)})


@dataclass(frozen=True)
class SetInput:
    """Change fields of an input (`requires_grad`, `strided`, …)."""

    input: str
    changes: Mapping[str, Any] = field(hash=False)

    def put(self, plan: Plan) -> Plan:
        """`plan` with this change."""

        def change(line: TensorInput) -> TensorInput:
            return replace(line, **self.changes)

        return replace(plan, lines={**plan.lines, self.input: (*plan.lines.get(self.input, ()), change)})


@dataclass(frozen=True)
class ChangeInput:
    """Change an input, as it is after the edits before this one."""

    input: str
    change: Callable[[TensorInput], TensorInput]

    def put(self, plan: Plan) -> Plan:
        """`plan` with this change."""
        return replace(plan, lines={**plan.lines, self.input: (*plan.lines.get(self.input, ()), self.change)})


@dataclass(frozen=True)
class SetRecipe:
    """Change a field of the recipe."""

    field: str
    value: Any

    def put(self, plan: Plan) -> Plan:
        """`plan` with this change."""
        return replace(plan, recipe={**plan.recipe, self.field: self.value})


@dataclass(frozen=True)
class DropMarks:
    """Drop ``mark_dynamic`` and similar marks."""

    def put(self, plan: Plan) -> Plan:
        """`plan` with this change."""
        return replace(plan, marks=False)


@dataclass(frozen=True)
class KeepCalls:
    """Make only these calls (by position)."""

    kept: tuple[int, ...]

    def put(self, plan: Plan) -> Plan:
        """`plan` with this change."""
        return replace(plan, calls=self.kept)


@dataclass(frozen=True)
class Preamble:
    """Replace the preamble and the additional imports."""

    text: str
    imports: tuple[str, ...]

    def put(self, plan: Plan) -> Plan:
        """`plan` with this change."""
        return replace(plan, preamble=self.text, imports=self.imports)


@dataclass(frozen=True)
class Rewrite:
    """Replace the program that the other edits make by `change` of it, without dead code; None: it cannot be changed.

    The base's metadata may not hold for the new program. A search that accepts it must use it as its new base.
    """

    change: Callable[[Program], Program | None]
    tidy: bool = True  # drop what is dead after the change

    def put(self, plan: Plan) -> Plan:
        """`plan` with this change."""
        return replace(plan, rewrites=(*plan.rewrites, self._tidied if self.tidy else self.change))

    def _tidied(self, program: Program) -> Program | None:
        changed = self.change(program)
        return None if changed is None else apply(changed, [], {})


def resize(sizes: Mapping[int, int], *, code: bool) -> Rewrite:
    """Replace numbers in the sizes of inputs; with `code`, in statements too."""
    return Rewrite(partial(resized, sizes=sizes, code=code), tidy=False)


def planned(edits: Iterable[Edit], start: Plan | None = None) -> Plan:
    """The plan that `edits` make after `start`."""
    plan = start or Plan()
    for edit in edits:
        plan = edit.put(plan)
    return plan


def apply(base: Program | Base, edits: Iterable[Edit], metadata: Metadata, start: Plan | None = None) -> Program | None:
    """`base` with `edits`, after those of `start`; None when a new input has no usable metadata.

    Dead pure statements, unused inputs and unused bodies are dropped.
    """
    built = rebuild(base if isinstance(base, Base) else Base(base), planned(edits, start), metadata)
    return built.program if built is not None else None
