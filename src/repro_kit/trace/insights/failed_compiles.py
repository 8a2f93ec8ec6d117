"""Failed compiles: the exception, the compiles, and the user's line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from repro_kit.model.failure.failure import Frame
from repro_kit.trace.break_text import user_stack
from repro_kit.trace.places import CompileRef

if TYPE_CHECKING:
    from repro_kit.trace.compiles import CompileFailure, Compiles

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
            group.compiles.append(CompileRef(failure.compile_id, failure.rank, failure.log))
    return tuple(_merged(group) for group in groups.values())


def _merged(group: _SameFailure) -> FailedCompile:
    failure = group.first
    stack = user_stack(failure.text)
    where = stack[-1] if stack else failure.where
    return FailedCompile(
        failure.type, failure.reason, where, stack, failure.soft, failure.backward, group.count, tuple(group.compiles)
    )
