"""What the reducer asks of whoever runs programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from repro_kit.program import Program
from repro_kit.program.values import Metadata


class Outcome(StrEnum):
    """What became of a program; only `SAME` is accepted, and `ALIKE` where a pass changes what is compiled."""

    SAME = "same"  # fails like the original
    ALIKE = "alike"  # but for what another form of the same graph alters: wrapper exceptions, outer frames
    OTHER = "other"  # fails in another way
    PASS = "pass"
    INVALID = "invalid"  # broken in eager too
    INFRA = "infra"  # could not be judged


@dataclass(frozen=True)
class Answer:
    """The judgement on one program; `note` says in a few words what was seen.

    `failure`, with `ALIKE`: the failure itself, in a form that `Oracle.adopt` understands.
    """

    outcome: Outcome
    seconds: float = 0.0
    note: str = ""
    failure: dict[str, Any] | None = None


class Oracle(Protocol):
    """Runs programs. `jobs` of them are judged at a time; with one, candidates come one by one."""

    jobs: int

    def check(self, programs: Sequence[Program]) -> Iterable[Answer]:
        """One answer a program, in order, as they come. The reducer may stop reading (closing a generator)."""
        ...

    def adopt(self, answer: Answer) -> None:
        """From now on what fails like this `ALIKE` answer is the `SAME`: its program was accepted."""
        ...

    def record(self, program: Program) -> Metadata:
        """What is known of every value and every parameter of the graph on its first call, by name."""
        ...

    def fake_valid(self, programs: Sequence[Program]) -> Sequence[bool | None]:
        """Whether each runs in eager, judged without running kernels; None where that cannot tell."""
        ...
