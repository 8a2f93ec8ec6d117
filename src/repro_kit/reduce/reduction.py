"""One reduction: the runs of the original, the search, and the result with its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic

from repro_kit.errors import Exit, ReproKitError
from repro_kit.failure.signature import RunOutcome
from repro_kit.reduce.flaky import chance_to_miss, repeats_for
from repro_kit.reduce.search import Accepted, Answer, CandidateSearch, P, Stop, Stopped, key_of

_RUNS = 3  # runs of the original, to see whether it always fails
_MOST = 10  # runs of a flaky original, to measure its rate
_SLOW = 20.0  # seconds: from here on, one run must do
_DEAR = 5.0  # seconds of one run: from here on, it is made smaller before its failure rate is measured


class CannotReduce(ReproKitError):
    """The program does not fail as the oracle expects, or fails without any compute; `program` is the judged one."""

    def __init__(self, message: str, program: object, answers: Sequence[Answer]) -> None:
        super().__init__(message, Exit.FAILED)
        self.program = program
        self.answers = tuple(answers)


@dataclass(frozen=True)
class DecidingNumber:
    """A number of the result that decides: with `fails` it fails alike, with `passes` it passes."""

    what: str  # "dimension 0 of `x`"
    fails: int | float
    passes: int | float
    beyond: bool = False  # the next number away from `passes` was seen to fail alike, too
    result: int | float | None = None  # the number that the result has, if not `fails`

    @property
    def change(self) -> str:
        """The change that makes the result pass, in words."""
        return f"{self.passes} in place of {self.fails if self.result is None else self.result} as {self.what}"

    @property
    def words(self) -> str:
        """Where the failure begins, in words."""
        if self.beyond and self.fails > self.passes:
            return f"fails from {self.fails} up, passes with {self.passes} as {self.what}"
        if self.beyond:
            return f"fails up to {self.fails}, passes with {self.passes} as {self.what}"
        return f"fails with {self.fails}, passes with {self.passes} as {self.what}"


@dataclass(frozen=True)
class Removal:
    """The result with one part removed (`what`), and its outcome; None: this removal gives no valid program."""

    what: str
    outcome: RunOutcome | None
    note: str = ""
    equivalent: bool = False  # the same failure, in another form

    @property
    def keeps_the_failure(self) -> bool:
        """Whether the failure is still there without this part (in any form), or could not be judged."""
        return self.equivalent or self.outcome in (RunOutcome.FAILS_ALIKE, RunOutcome.CANNOT_TELL)


@dataclass(frozen=True)
class Twin(Generic[P]):
    """A variant that passes and differs from the result by one edit (`what`)."""

    what: str
    program: P


@dataclass(frozen=True)
class Neighbours(Generic[P]):
    """The neighbours of the result that were judged."""

    removals: tuple[Removal, ...] = ()
    complete: bool = False  # every single removal was judged
    twin: Twin[P] | None = None
    number: DecidingNumber | None = None  # the number that `twin` changes
    variants: tuple[Removal, ...] = ()  # the result with another size, dtype or setting, as far as they were judged

    @property
    def minimal(self) -> bool:
        """Whether the result is 1-minimal: every single removal was judged, and none shows the failure in any form."""
        return self.complete and not any(removal.keeps_the_failure for removal in self.removals)


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


def carry_out(
    search: CandidateSearch[Any, P],
    steps: Callable[[], None],
    around: Callable[[], Iterator[Neighbours[P]]],
    *,
    find: Callable[[], None] = lambda: None,
    before: Sequence[Answer] = (),
    at_deadline: Callable[[], None] = lambda: None,
) -> Result[P]:
    """Run the original, `find` the part that fails, take the `steps`, and look `around` the result.

    `before`: the answers on the original that the oracle gave already. Where a run of the original is dear, its part is
    what shows how often the failure occurs. `at_deadline` is called when the search had used up its share of the
    deadline. A limit ends the search early, with the best program so far.
    """
    statements_before, original = search.measure[0], list(before)
    for answer in before:
        search.costs.learn(statements_before, answer.seconds, fails=answer.interesting)
    stopped: Stop = "fixpoint"
    neighbours: Neighbours[P] = Neighbours()
    try:
        _run_original(search, original, 1)
        is_dear = original[0].interesting and original[0].seconds >= _DEAR
        if is_dear:
            search.once = True
            find()
            search.once = False
        _measure_rate(search, original)
        if not is_dear:
            find()
        steps()
        search.share = 1.0
        search.begin("neighbours")
        for neighbours in around():  # noqa: B007 - the last one before a limit is the result
            pass
    except Stopped as stop:
        stopped = stop.reason
        if stopped == "deadline" and search.share < 1:
            at_deadline()
    search.end(stopped)
    failed, runs = count_failed(original), _count_judged(original)
    return Result(
        program=search.program,
        statements_before=statements_before,
        statements_after=search.measure[0],
        queries=search.queries,
        steps=len(search.history),
        seconds=search.elapsed,
        stopped=stopped,
        failed=failed,
        runs=runs,
        repeats=search.repeats,
        missed=chance_to_miss(failed, runs, search.repeats) if search.repeats > 1 else 0.0,
        history=tuple(search.history),
        neighbours=neighbours,
        others=tuple(search.others.items()),
    )


def judged(search: CandidateSearch[Any, P], what: str, program: P | None) -> Removal:
    """A variant of the result, as the oracle judges it."""
    if program is None or program == search.program:
        return Removal(what, None)
    (answer,) = search.ask([program], [key_of(search.render(program))])
    note = answer.note if answer.outcome is not RunOutcome.PASSES else ""
    return Removal(what, answer.outcome, note, answer.equivalent)


def _measure_rate(search: CandidateSearch[Any, P], answers: list[Answer]) -> None:
    """Run the program until its failure rate is known: more often when some runs pass.

    `answers` are those given already; new ones are appended. A flaky failure makes the search repeat its queries.
    """
    search.begin("verify")
    if not (answers[0].interesting and search.costs.seconds(search.measure[0], fails=True) >= _SLOW):
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
    if count_failed(answers) < _count_judged(answers):
        _run_original(search, answers, _MOST)
    search.repeats = repeats_for(count_failed(answers), _count_judged(answers))


def _run_original(search: CandidateSearch[Any, P], answers: list[Answer], runs: int) -> None:
    """Run the best program until there are `runs` answers, as many runs at a time as the oracle can make."""
    key = key_of(search.text)
    while len(answers) < runs:
        numbers = range(len(answers), min(runs, len(answers) + max(1, search.oracle.jobs)))
        answers += search.ask([search.program] * len(numbers), [f"{key}#{at}" for at in numbers])


def count_failed(answers: Sequence[Answer]) -> int:
    """How many of the answers are that the program fails alike."""
    return sum(answer.interesting for answer in answers)


def _count_judged(answers: Sequence[Answer]) -> int:
    return sum(answer.outcome is not RunOutcome.CANNOT_TELL for answer in answers)
