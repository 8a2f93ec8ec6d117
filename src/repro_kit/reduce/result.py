"""The result of a reduction, and the runs of the original that it begins with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic

from repro_kit.errors import Exit, ReproKitError
from repro_kit.model.run_outcome import RunOutcome
from repro_kit.reduce.candidate_search import Accepted, CandidateSearch, P, Stop, key_of
from repro_kit.reduce.flaky import chance_to_miss, repeats_for
from repro_kit.reduce.neighbours import Neighbours
from repro_kit.reduce.oracle import Answer

_RUNS = 3  # runs of the original, to see whether it always fails
_MOST = 10  # runs of a flaky original, to measure its rate
_SLOW = 20.0  # seconds: from here on, one run of the original must do


class CannotReduce(ReproKitError):
    """The program does not fail as the oracle expects, or fails without any compute; `program` is the judged one."""

    def __init__(self, message: str, program: object, answers: Sequence[Answer]) -> None:
        super().__init__(message, Exit.FAILED)
        self.program = program
        self.answers = tuple(answers)


@dataclass(frozen=True)
class Result(Generic[P]):
    """The outcome of a reduction. `history`: every accepted program. `others`: one program per other failure met."""

    program: P
    statements_before: int
    statements_after: int
    queries: int
    steps: int
    seconds: float
    stopped: Stop
    failed: int  # of `runs` runs of the original; fewer than `runs` for a flaky failure
    runs: int
    repeats: int = 1  # runs of a candidate before it counted as passing
    missed: float = 0.0  # chance that a candidate which fails as often as the original passed all `repeats` runs
    history: tuple[Accepted[P], ...] = ()
    neighbours: Neighbours[P] = field(default_factory=Neighbours)
    others: tuple[tuple[str, P], ...] = ()


def result_of(
    search: CandidateSearch[Any, P],
    original: Sequence[Answer],
    statements_before: int,
    seconds: float,
    stopped: Stop,
    neighbours: Neighbours[P],
) -> Result[P]:
    """The result of a search that has ended. `original`: the answers on the original."""
    failed, runs = count_failed(original), _judged(original)
    return Result(
        program=search.program,
        statements_before=statements_before,
        statements_after=search.measure[0],
        queries=search.queries,
        steps=len(search.history),
        seconds=seconds,
        stopped=stopped,
        failed=failed,
        runs=runs,
        repeats=search.repeats,
        missed=chance_to_miss(failed, runs, search.repeats) if search.repeats > 1 else 0.0,
        history=tuple(search.history),
        neighbours=neighbours,
        others=tuple(search.others.items()),
    )


def measure_original(search: CandidateSearch[Any, P], answers: list[Answer]) -> None:
    """Run the original until its failure rate is known: more often when some runs pass.

    `answers` are those given already; new ones are appended. A flaky failure makes the search repeat its queries.
    """
    search.begin("verify")
    _run_original(search, answers, 1)
    if not is_slow(answers):
        _run_original(search, answers, _RUNS)
    if not count_failed(answers):
        seen = "; ".join(
            dict.fromkeys(f"{answer.outcome}{': ' + answer.note if answer.note else ''}" for answer in answers)
        )
        raise CannotReduce(
            f"The program did not fail as expected in {len(answers)} runs ({seen}); nothing to reduce.",
            search.program,
            answers,
        )
    if count_failed(answers) < _judged(answers):
        _run_original(search, answers, _MOST)
    search.repeats = repeats_for(count_failed(answers), _judged(answers))


def _run_original(search: CandidateSearch[Any, P], answers: list[Answer], runs: int) -> None:
    """Run the original until there are `runs` answers, as many runs at a time as the oracle can make."""
    key = key_of(search.text)
    while len(answers) < runs:
        numbers = range(len(answers), min(runs, len(answers) + max(1, search.oracle.jobs)))
        answers += search.ask([search.program] * len(numbers), [f"{key}#{at}" for at in numbers])


def count_failed(answers: Sequence[Answer]) -> int:
    """How many of the answers are that the program fails alike."""
    return sum(answer.interesting for answer in answers)


def _judged(answers: Sequence[Answer]) -> int:
    return sum(answer.outcome is not RunOutcome.CANNOT_TELL for answer in answers)


def is_slow(answers: Sequence[Answer]) -> bool:
    """Whether one run of the original must do."""
    return answers[0].interesting and answers[0].seconds >= _SLOW
