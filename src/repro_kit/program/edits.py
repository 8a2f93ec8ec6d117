"""Edits: the vocabulary in which a smaller program is proposed, over a base program that stays as it is.

An edit records itself in a `Plan`; `rebuild` makes the program of a plan. To add a kind of edit is to add a class.
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
from repro_kit.program.values import Metadata


class Edit(Protocol):
    """One change."""

    def put(self, plan: Plan) -> Plan:
        """`plan` with this change."""
        ...


@dataclass(frozen=True)
class Remove:
    """Drop statements (indices into the base's graph). Values of them that are still needed become inputs."""

    statements: frozenset[int]

    def put(self, plan: Plan) -> Plan:
        """`plan` with this change."""
        return replace(plan, removed=plan.removed | self.statements)


@dataclass(frozen=True)
class Bypass:
    """Whoever reads one of these values (a statement's or an input) reads the earlier one that it maps to instead."""

    values: Mapping[str, str] = field(hash=False)

    def put(self, plan: Plan) -> Plan:
        """`plan` with this change."""
        return replace(plan, bypass={**plan.bypass, **self.values})


@dataclass(frozen=True)
class Outputs:
    """The graph returns these values, as a flat tuple."""

    values: tuple[str, ...]

    def put(self, plan: Plan) -> Plan:
        """`plan` with this change."""
        return replace(plan, outputs=self.values)


@dataclass(frozen=True)
class SetData:
    """An input gets other values."""

    input: str
    data: Data
    dtype: str | None = None  # for an input whose line does not tell, since its values were stored
    device: str | None = None

    def put(self, plan: Plan) -> Plan:
        """`plan` with this change."""

        def change(line: TensorInput) -> TensorInput:
            return replace(line, data=self.data, dtype=line.dtype or self.dtype, device=line.device or self.device)

        return replace(plan, lines={**plan.lines, self.input: (*plan.lines.get(self.input, ()), change)})


@dataclass(frozen=True)
class SetInput:
    """An input changes in some fields (`requires_grad`, `strided` …)."""

    input: str
    changes: Mapping[str, Any] = field(hash=False)

    def put(self, plan: Plan) -> Plan:
        """`plan` with this change."""

        def change(line: TensorInput) -> TensorInput:
            return replace(line, **self.changes)

        return replace(plan, lines={**plan.lines, self.input: (*plan.lines.get(self.input, ()), change)})


@dataclass(frozen=True)
class SetRecipe:
    """A field of the recipe changes."""

    field: str
    value: Any

    def put(self, plan: Plan) -> Plan:
        """`plan` with this change."""
        return replace(plan, recipe={**plan.recipe, self.field: self.value})


@dataclass(frozen=True)
class DropMarks:
    """No ``mark_dynamic`` and the like."""

    def put(self, plan: Plan) -> Plan:
        """`plan` with this change."""
        return replace(plan, marks=False)


@dataclass(frozen=True)
class KeepCalls:
    """Only these calls (by position) are made."""

    kept: tuple[int, ...]

    def put(self, plan: Plan) -> Plan:
        """`plan` with this change."""
        return replace(plan, calls=self.kept)


@dataclass(frozen=True)
class Preamble:
    """The preamble and further imports become these."""

    text: str
    imports: tuple[str, ...]

    def put(self, plan: Plan) -> Plan:
        """`plan` with this change."""
        return replace(plan, preamble=self.text, imports=self.imports)


@dataclass(frozen=True)
class Rewrite:
    """The program that the other edits make becomes another one, less what is dead then; None: it cannot.

    What was recorded of the base may not hold for it: whoever gets one accepted goes on from it as a new base.
    """

    change: Callable[[Program], Program | None]
    tidy: bool = True  # something may be dead then

    def put(self, plan: Plan) -> Plan:
        """`plan` with this change."""
        return replace(plan, rewrites=(*plan.rewrites, self._tidied if self.tidy else self.change))

    def _tidied(self, program: Program) -> Program | None:
        changed = self.change(program)
        return None if changed is None else apply(changed, [], {})


def resize(sizes: Mapping[int, int], *, code: bool) -> Rewrite:
    """Numbers become others in the sizes of inputs, with `code` in statements too."""
    return Rewrite(partial(resized, sizes=sizes, code=code), tidy=False)


def planned(edits: Iterable[Edit], start: Plan | None = None) -> Plan:
    """The plan that `edits` make, after `start`."""
    plan = start or Plan()
    for edit in edits:
        plan = edit.put(plan)
    return plan


def apply(base: Program | Base, edits: Iterable[Edit], metadata: Metadata, start: Plan | None = None) -> Program | None:
    """`base` with `edits`, after those of `start`; None when they need an input of which nothing usable was recorded.

    Dead pure statements, unused inputs and unused bodies are left out.
    """
    built = rebuild(base if isinstance(base, Base) else Base(base), planned(edits, start), metadata)
    return built.program if built is not None else None
