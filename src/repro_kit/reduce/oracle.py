"""The interface between the reducer and the code that runs programs.

One query goes this way: `search_state.Search.first` proposes a candidate; `stages/minify/reducer_oracle.py` renders it;
the runner's oracle sends it to a server, where `repro_probe/query/evaluate.py` runs it in eager and compiled;
`model/failure/classify.py` makes a verdict of the reply; `model/run_outcome.py` holds that against the original's
signature; the reducer oracle calls the outcome interesting, equivalent or neither; and `Search` accepts it or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from repro_kit.model.run_outcome import RunOutcome
from repro_kit.program import Program
from repro_kit.program.value_records import Metadata

P_contra = TypeVar("P_contra", contravariant=True)


@dataclass(frozen=True)
class Answer:
    """The judgement on one program; `note` describes the observation in a few words.

    A program that fails alike is *interesting* (the term of delta debugging): the search accepts it. A program is
    *equivalent* (the term of Shrink Ray) when its failure differs only in what another form of the same graph changes:
    wrapper exceptions and outer frames. Its outcome is then FAILS_OTHERWISE, and `failure` is set to the failure in the
    form that `Oracle.adopt` takes. Passes that change the form accept an equivalent program.
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
    """Runs and judges programs, `jobs` at a time. With ``jobs == 1``, candidates come one by one."""

    jobs: int

    def check(self, programs: Sequence[P_contra]) -> Iterable[Answer]:
        """One answer per program, in order, as they come. The reducer may stop reading and close a generator."""
        ...

    def adopt(self, answer: Answer) -> None:
        """Treat the failure in this equivalent answer as interesting from now on: its program was accepted."""
        ...


class Oracle(CandidateOracle[Program], Protocol):
    """The oracle of a graph's reduction, which also knows the graph's values."""

    def record(self, program: Program) -> Metadata:
        """The metadata of every value and parameter of the graph on its first call, by name."""
        ...

    def fake_valid(self, programs: Sequence[Program]) -> Sequence[bool | None]:
        """Whether each program runs in eager, judged with fake tensors; None where this cannot decide."""
        ...
