"""The interface between the reducer and the code that runs programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from repro_kit.model.run_outcome import RunOutcome

P_contra = TypeVar("P_contra", contravariant=True)


@dataclass(frozen=True)
class Answer:
    """The judgement on one program; `note` describes the observation in a few words.

    A program that fails alike is *interesting* (the term of delta debugging): the search accepts it. A program is
    *equivalent* (the term of Shrink Ray) when its failure differs only in what another form of the same graph changes:
    wrapper exceptions and outer frames. Its outcome is then FAILS_OTHERWISE, and `failure` is set to the failure in the
    form that `adopt` takes. Passes that change the form accept an equivalent program.
    """

    outcome: RunOutcome
    seconds: float = 0.0  # of the run
    note: str = ""
    failure: dict[str, Any] | None = None

    @property
    def interesting(self) -> bool:
        """Whether the program fails with the failure that the search keeps."""
        return self.outcome is RunOutcome.FAILS_ALIKE

    @property
    def equivalent(self) -> bool:
        """Whether the program shows the same failure in another form."""
        return self.outcome is RunOutcome.FAILS_OTHERWISE and self.failure is not None

    @property
    def word(self) -> str:
        """The outcome, as events and result files spell it."""
        return "equivalent" if self.equivalent else str(self.outcome)


class CandidateOracle(Protocol[P_contra]):
    """Runs and judges programs, `jobs` at a time. With ``jobs == 1``, it gets candidates one by one."""

    jobs: int

    def check(self, programs: Sequence[P_contra]) -> Iterable[Answer]:
        """One answer per program, in order, as they come. The reducer may stop reading and close a generator."""
        ...

    def adopt(self, answer: Answer) -> None:
        """Treat the failure in this equivalent answer as interesting from now on: its program was accepted."""
        ...
