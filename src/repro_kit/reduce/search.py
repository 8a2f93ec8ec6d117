"""The greedy search for the smallest program that fails alike: what it asks, accepts and remembers."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

from repro_kit.failure.signature import RunOutcome
from repro_kit.journal import JsonLinesJournal
from repro_kit.reduce.cost import Costs
from repro_kit.serialize import from_data, to_data

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


class Journal(JsonLinesJournal[Answer]):
    """Answers by the hash of a program's text, as JSON lines: ``{"key", "outcome", "seconds", "note", "failure"}``."""

    def __init__(self, path: Path | None = None, about: str = "") -> None:
        """A journal in the file `path`, or in memory only (None). Raises UsageError when the file cannot be used."""
        super().__init__(path, lambda entry: from_data(entry, Answer), to_data, about)


B = TypeVar("B")  # what proposals are applied to
P = TypeVar("P")  # a program
Measure = tuple[int, ...]
Stop = Literal["fixpoint", "deadline", "budget"]
#: Of several runs of one program, the earliest outcome in this list counts. Eager's result does not vary between runs.
_PRECEDENCE = (
    RunOutcome.FAILS_ALIKE,
    RunOutcome.INVALID,
    RunOutcome.FAILS_OTHERWISE,
    RunOutcome.PASSES,
    RunOutcome.CANNOT_TELL,
)
_DECIDED = _PRECEDENCE[:2]
_ONCE = "#once"


class Stopped(Exception):
    """The budget or the deadline is used up. The best program so far stays in the search."""

    def __init__(self, reason: Stop) -> None:
        super().__init__(reason)
        self.reason: Stop = reason


@dataclass(frozen=True)
class SearchLimits:
    """The limits of a search: `budget` in queries, `deadline` in seconds of `clock`; None: no limit."""

    budget: int | None
    deadline: float | None
    clock: Callable[[], float]


@dataclass(frozen=True)
class Accepted(Generic[P]):
    """One accepted step: a smaller program that fails alike."""

    name: str  # of the pass
    program: P
    statements: int
    queries: int  # made so far, this step's included
    seconds: float  # since the search began


@dataclass(frozen=True)
class Event:
    """Progress of a search: a pass began, a query was answered, a program was accepted, or the search ended."""

    kind: Literal["pass", "query", "accepted", "end"]
    name: str  # of the pass
    statements: int  # compute statements left
    queries: int
    answer: Answer | None = None  # of a query
    stopped: Stop | None = None  # why the search ended
    size: int = 0  # compute statements of the program that a query judged


@dataclass(frozen=True)
class Candidate(Generic[P]):
    """A program to judge. `index`: of its proposal; `made`: what the search has to remember if it is accepted."""

    index: int
    program: P
    made: Any
    measure: Measure
    key: str


@dataclass
class CandidateSearch(ABC, Generic[B, P]):
    """The search: passes propose edits, and the search judges and accepts them.

    *Progress.* A candidate replaces the best program when it fails alike and is strictly smaller by `measure`, a total
    order whose first number is the number of statements. So each acceptance is progress, the search ends, and no order
    of the passes can undo another's work.

    *Deterministic.* The outcome depends on the program, the answers, the limits and the number of jobs. The first
    proposal in order wins, whichever answer comes first. Every distinct program is judged once (a flaky failure:
    `repeats` times in that one judgement), and the journal has the answers under a hash of the program's text. A killed
    search that is started again takes the same steps and asks nothing twice.

    *When a pass may give up.* In the end, no pass and no single removal helps; the last passes must therefore try every
    single item. While `coarse` is set, a pass may stop as soon as most items turn out to be needed. A limit
    (`Stopped`) may end a pass anywhere; the best program so far stays.

    *Another failure is no evidence.* A candidate that fails in another way is refused, and kept aside in `others`.

    A subclass says how a proposal becomes a program, how programs are written, and how they are compared.
    """

    base: B
    oracle: CandidateOracle[P]
    journal: Journal
    limits: SearchLimits
    on_event: Callable[[Event], None]
    coarse: bool = False  # sweeps give up early
    share: float = 1.0  # share of the deadline that may be used up
    repeats: int = 1  # runs of a candidate before it counts as passing; more than one for a flaky failure
    once: bool = False  # candidates are run once, since it is not known yet how often the failure occurs
    history: list[Accepted[P]] = field(default_factory=list)
    others: dict[str, P] = field(default_factory=dict)  # other failures met: note -> program
    name: str = ""  # of the running pass

    program: P = field(init=False)
    measure: Measure = field(init=False)

    def __post_init__(self) -> None:
        self.costs = Costs()
        self._asked: set[str] = set()
        self._start = self.limits.clock()

    @abstractmethod
    def render(self, program: P) -> str:
        """The program as text, which is the same for equal programs."""

    @abstractmethod
    def measured(self, program: P, text: str) -> Measure:
        """The size of the program; `text`: the program as text."""

    @abstractmethod
    def size(self, program: P) -> int:
        """The number of compute statements, the first number of `measured`."""

    @abstractmethod
    def rebase(self) -> B:
        """Continue with the best program as the new base, and return that."""

    @abstractmethod
    def made_of(self, proposal: Any) -> tuple[P, Any] | None:
        """The program that a proposal makes of the best one, and what `take` needs; None if it makes none."""

    @abstractmethod
    def take(self, made: Any) -> None:
        """Remember what an accepted proposal has made."""

    def _admits(self, program: P, made: Any) -> bool:
        """Whether a new and smaller program is judged at all."""
        return True

    def _plausible(self, candidates: Sequence[Candidate[P]]) -> Sequence[Candidate[P]]:
        """The candidates that a cheaper check does not show to be invalid."""
        return candidates

    @property
    def text(self) -> str:
        """The best program as text."""
        return self.render(self.program)

    @property
    def queries(self) -> int:
        """The number of distinct programs judged, including those answered by the journal."""
        return len(self._asked)

    @property
    def elapsed(self) -> float:
        """Seconds since the search began."""
        return self.limits.clock() - self._start

    def begin(self, name: str) -> None:
        """Report that pass `name` begins."""
        self.name = name
        self._report("pass")

    def run(self, *passes: Callable[..., None]) -> None:
        """Run passes once, in order."""
        for pass_ in passes:
            self.begin(pass_.__name__)
            pass_(self)

    def fixpoint(self, passes: Sequence[Callable[..., None]]) -> None:
        """Run passes until none of them makes progress."""
        steps = -1
        while steps != len(self.history):
            steps = len(self.history)
            self.run(*passes)

    def end(self, stopped: Stop) -> None:
        """Report the end of the search, and why."""
        self.on_event(Event("end", self.name, self.measure[0], self.queries, stopped=stopped))

    def allow_more(self, share: float) -> None:
        """Let the search go on from now for `share` of its deadline."""
        self.share = share + (self.elapsed / self.limits.deadline if self.limits.deadline else 0.0)

    def first(self, proposals: Iterable[object], *, fake: bool = False, equivalent: bool = False) -> int | None:
        """Judge proposals (edits on top of the best program) in order, and accept the first that fails alike.

        Returns the index of the accepted proposal, or None. `oracle.jobs` candidates are judged at a time, but the
        first in order wins, so that the outcome does not depend on timing. With `fake`, candidates that a cheaper check
        shows to be invalid are skipped. With `equivalent`, an equivalent failure (see `Answer`) is accepted too.
        """
        candidates = self._candidates(proposals)
        while True:
            batch = self._batch(candidates, fake)
            if not batch:
                return None
            winner = self._judge(batch, equivalent)
            if winner is not None:
                self._accept(winner)
                return winner.index

    def is_new(self, key: str) -> bool:
        """Whether no program with this key was judged. A judged one was not accepted then, and would not be now."""
        return self._name(key) not in self._asked

    def _name(self, key: str) -> str:
        """The name in the journal. An answer of one run is one of its own: it counts if every candidate is run once."""
        alone = f"{key}{_ONCE}"
        return alone if self.once or (self.repeats == 1 and alone in self._asked) else key

    def _candidates(self, proposals: Iterable[object]) -> Iterator[Candidate[P]]:
        """The proposals that give a program which is smaller than the best one, and which was not judged before."""
        seen: set[str] = set()
        for index, proposal in enumerate(proposals):
            made = self.made_of(proposal) if proposal else None
            if made is None:
                continue
            program, rest = made
            text = self.render(program)
            key = key_of(text)
            if key in seen or not self.is_new(key):
                continue
            seen.add(key)
            size = self.measured(program, text)
            if size < self.measure and self._admits(program, rest):
                yield Candidate(index, program, rest, size, key)

    def _batch(self, candidates: Iterator[Candidate[P]], fake: bool) -> list[Candidate[P]]:
        batch: list[Candidate[P]] = []
        while len(batch) < max(1, self.oracle.jobs):
            more = list(islice(candidates, max(1, self.oracle.jobs) - len(batch)))
            if not more:
                break
            batch += self._plausible(more) if fake else more
        return batch

    def _judge(self, batch: Sequence[Candidate[P]], equivalent: bool) -> Candidate[P] | None:
        """The first of `batch` that fails alike (or equivalently, with `equivalent`)."""
        answers = self.ask([candidate.program for candidate in batch], [candidate.key for candidate in batch])
        for candidate, answer in zip(batch, answers, strict=False):
            if answer.interesting:
                return candidate
            if answer.equivalent:
                if equivalent:
                    self.oracle.adopt(answer)
                    return candidate
            elif answer.outcome is RunOutcome.FAILS_OTHERWISE and answer.note:
                self.others.setdefault(answer.note, candidate.program)
        return None

    def ask(self, programs: Sequence[P], keys: Sequence[str]) -> Iterator[Answer]:
        """The answers in order; the journal's where it has them. Raises `Stopped` at a limit."""
        keys = [self._name(key) for key in keys]
        unknown = [at for at, key in enumerate(keys) if self.journal.get(key) is None and key not in keys[:at]]
        fresh: Iterator[Answer] = iter(())
        for at, key in enumerate(keys):
            self._check_limits(live=False)
            answer = self.journal.get(key)
            if answer is None:
                if at == unknown[0]:
                    self._check_limits(live=True)
                    fresh = iter(self._run([programs[index] for index in unknown]))
                answer = next(fresh)
                self.journal.put(key, answer)
            self._asked.add(key)
            size = self.size(programs[at])
            if answer.seconds:  # it was run
                self.costs.learn(size, answer.seconds, fails=answer.interesting)
            self._report("query", answer, size)
            yield answer

    def _run(self, programs: Sequence[P]) -> Iterable[Answer]:
        if self.repeats == 1:
            yield from self.oracle.check(programs)
        else:
            yield from map(self._repeated, programs)

    def _repeated(self, program: P) -> Answer:
        """The answer of up to `repeats` runs that takes precedence; a decided one ends the runs. Raises `Stopped`."""
        answers: list[Answer] = []
        jobs = max(1, self.oracle.jobs)
        while len(answers) < self.repeats and not (answers and answers[-1].outcome in _DECIDED):
            if answers:
                self._check_limits(live=True)
            for answer in self.oracle.check([program] * min(jobs, self.repeats - len(answers))):
                answers.append(answer)
                if answer.outcome in _DECIDED:
                    break
        decisive = min(answers, key=lambda answer: (_PRECEDENCE.index(answer.outcome), not answer.equivalent))
        return replace(decisive, seconds=sum(answer.seconds for answer in answers))

    def _check_limits(self, *, live: bool) -> None:
        if self.limits.budget is not None and self.queries >= self.limits.budget:
            raise Stopped("budget")
        deadline = self.limits.deadline
        if live and deadline is not None and self.elapsed >= self.share * deadline:
            raise Stopped("deadline")

    def _accept(self, winner: Candidate[P]) -> None:
        self.program, self.measure = winner.program, winner.measure
        self.take(winner.made)
        self.history.append(Accepted(self.name, self.program, self.measure[0], self.queries, self.elapsed))
        self._report("accepted")

    def _report(self, kind: Literal["pass", "query", "accepted"], answer: Answer | None = None, size: int = 0) -> None:
        self.on_event(Event(kind, self.name, self.measure[0], self.queries, answer, size=size))


def key_of(text: str) -> str:
    """The journal's key of a program's text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]
