"""What the reducer asks of whoever runs programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from repro_kit.model.run_outcome import RunOutcome
from repro_kit.program import Program
from repro_kit.program.values import Metadata


@dataclass(frozen=True)
class Answer:
    """The judgement on one program; `note` says in a few words what was seen.

    A program that fails alike is *interesting*: the search accepts it (the term of delta debugging). A program is
    *equivalent* (the term of Shrink Ray) when it fails otherwise, but only in what another form of the same graph
    alters: wrapper exceptions, outer frames. Passes that change the form accept an equivalent program. `failure` is
    then the failure itself, in a form that `Oracle.adopt` understands.
    """

    outcome: RunOutcome
    seconds: float = 0.0
    note: str = ""
    failure: dict[str, Any] | None = None

    @property
    def interesting(self) -> bool:
        """Whether the program fails with the failure that is looked for."""
        return self.outcome is RunOutcome.FAILS_ALIKE

    @property
    def equivalent(self) -> bool:
        """Whether the program shows the failure in another form."""
        return self.outcome is RunOutcome.FAILS_OTHERWISE and self.failure is not None

    @property
    def word(self) -> str:
        """The outcome as events and results spell it."""
        return "alike" if self.equivalent else str(self.outcome)


class Oracle(Protocol):
    """Runs programs. `jobs` of them are judged at a time; with one, candidates come one by one."""

    jobs: int

    def check(self, programs: Sequence[Program]) -> Iterable[Answer]:
        """One answer a program, in order, as they come. The reducer may stop reading (closing a generator)."""
        ...

    def adopt(self, answer: Answer) -> None:
        """From now on what fails like this equivalent answer is interesting: its program was accepted."""
        ...

    def record(self, program: Program) -> Metadata:
        """What is known of every value and every parameter of the graph on its first call, by name."""
        ...

    def fake_valid(self, programs: Sequence[Program]) -> Sequence[bool | None]:
        """Whether each runs in eager, judged without running kernels; None where that cannot tell."""
        ...
