"""The state of one reduction: the smallest program so far, and the judging of the candidates that passes propose."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal

from repro_kit.model.run_outcome import RunOutcome
from repro_kit.program import Program, render, size
from repro_kit.program.analysis import Base
from repro_kit.program.program_edits import Edit, planned
from repro_kit.program.rebuild import Built, Plan, rebuild
from repro_kit.program.value_records import Metadata
from repro_kit.reduce.answer_journal import Journal
from repro_kit.reduce.oracle import Answer, Oracle
from repro_kit.reduce.order import Measure, measure

Stop = Literal["fixpoint", "deadline", "budget"]
#: Of several runs of one program, the earliest outcome in this list counts. Eager's result does not vary between runs.
_TELLING = (
    RunOutcome.FAILS_ALIKE,
    RunOutcome.INVALID,
    RunOutcome.FAILS_OTHERWISE,
    RunOutcome.PASSES,
    RunOutcome.CANNOT_TELL,
)
_DECIDED = _TELLING[:2]
Proposal = Sequence[Edit] | None


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
class Accepted:
    """One accepted step: a smaller program that fails alike."""

    name: str  # of the pass
    program: Program
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


@dataclass(frozen=True)
class _Candidate:
    index: int
    plan: Plan
    built: Built
    measure: Measure
    key: str


@dataclass
class Search:
    """Accepts and remembers: a candidate replaces the best program when it fails alike and is strictly smaller."""

    base: Base
    oracle: Oracle
    journal: Journal
    limits: SearchLimits
    on_event: Callable[[Event], None]
    metadata: Metadata = field(default_factory=dict)
    coarse: bool = False  # sweeps give up early
    share: float = 1.0  # share of the deadline that may be used up
    repeats: int = 1  # runs of a candidate before it counts as passing; more than one for a flaky failure
    plan: Plan = field(default_factory=Plan)
    history: list[Accepted] = field(default_factory=list)
    others: dict[str, Program] = field(default_factory=dict)  # other failures met: note -> program
    name: str = ""  # of the running pass

    def __post_init__(self) -> None:
        self.program = self.base.program
        self.live: tuple[int, ...] = tuple(range(len(self.base.statements)))
        self.names: Mapping[str, str] = {}  # bypassed name of the base -> the name that replaces it
        text = render(self.program, footer=False)
        self.measure = measure(self.program, self.metadata, text)
        self._asked: set[str] = set()
        self._start = self.limits.clock()

    @property
    def queries(self) -> int:
        """The number of distinct programs judged, including those answered by the journal."""
        return len(self._asked)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names that the graph returns."""
        base = self.base
        return tuple(name for name in self.program.graph.outputs if name in base.index or name in base.params)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The parameters of the graph, by their names in the base."""
        return self.program.graph.params

    def units(self) -> list[tuple[int, ...]]:
        """The base's units that still have a live statement."""
        live = set(self.live)
        return [unit for unit in self.base.units if not live.isdisjoint(unit)]

    def begin(self, name: str) -> None:
        """Report that pass `name` begins."""
        self.name = name
        self._tell("pass")

    def end(self, stopped: Stop) -> None:
        """Report the end of the search, and why."""
        self.on_event(Event("end", self.name, self.measure[0], self.queries, stopped=stopped))

    def learn(self, metadata: Metadata) -> None:
        """Use the recorded metadata of the base's values."""
        self.metadata = metadata
        self.measure = measure(self.program, metadata, render(self.program, footer=False))

    def rebase(self) -> None:
        """Continue with the best program as the new base, and record its values anew: the old metadata is outdated."""
        self.base, self.plan = Base(self.program), Plan()
        self.live, self.names = tuple(range(len(self.base.statements))), {}
        self.learn(self.oracle.record(self.program))

    def first(self, proposals: Iterable[Proposal], *, fake: bool = False, equivalent: bool = False) -> int | None:
        """Judge proposals (edits on top of the best program) in order, and accept the first that fails alike.

        Returns the index of the accepted proposal, or None. `oracle.jobs` candidates are judged at a time, but the
        first in order wins, so that the outcome does not depend on timing. With `fake`, candidates that fake tensors
        show to be invalid are skipped. With `equivalent`, an equivalent failure (see `Answer`) is accepted too.
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

    def _batch(self, candidates: Iterator[_Candidate], fake: bool) -> list[_Candidate]:
        batch: list[_Candidate] = []
        while len(batch) < max(1, self.oracle.jobs):
            more = list(islice(candidates, max(1, self.oracle.jobs) - len(batch)))
            if not more:
                break
            if fake:
                valid = self.oracle.fake_valid([candidate.built.program for candidate in more])
                more = [candidate for candidate, fine in zip(more, valid, strict=True) if fine is not False]
            batch += more
        return batch

    def _candidates(self, proposals: Iterable[Proposal]) -> Iterator[_Candidate]:
        """The proposals that can be built, are smaller than the best program, and were not judged before."""
        seen: set[str] = set()
        for index, edits in enumerate(proposals):
            if not edits:
                continue
            plan = planned(edits, self.plan)
            built = rebuild(self.base, plan, self.metadata)
            if built is None:
                continue
            text = render(built.program, footer=False)
            key = key_of(text)
            if key in self._asked or key in seen:  # judged before and not accepted: it would not be accepted now
                continue
            seen.add(key)
            size_ = measure(built.program, self.metadata, text)
            if size_ < self.measure:
                yield _Candidate(index, plan, built, size_, key)

    def _judge(self, batch: Sequence[_Candidate], equivalent: bool) -> _Candidate | None:
        """The first of `batch` that fails alike (or equivalently, with `equivalent`)."""
        answers = self.ask([candidate.built.program for candidate in batch], [candidate.key for candidate in batch])
        for candidate, answer in zip(batch, answers, strict=False):
            if answer.interesting:
                return candidate
            if answer.equivalent:
                if equivalent:
                    self.oracle.adopt(answer)
                    return candidate
            elif answer.outcome is RunOutcome.FAILS_OTHERWISE and answer.note:
                self.others.setdefault(answer.note, candidate.built.program)
        return None

    def ask(self, programs: Sequence[Program], keys: Sequence[str]) -> Iterator[Answer]:
        """The answers in order; the journal's where it has them. Raises `Stopped` at a limit."""
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
            self._tell("query", answer)
            yield answer

    def _run(self, programs: Sequence[Program]) -> Iterable[Answer]:
        if self.repeats == 1:
            yield from self.oracle.check(programs)
        else:
            yield from map(self._repeated, programs)

    def _repeated(self, program: Program) -> Answer:
        """The most telling of up to `repeats` answers; a decided one ends the runs early. Raises `Stopped`."""
        answers: list[Answer] = []
        jobs = max(1, self.oracle.jobs)
        while len(answers) < self.repeats and not (answers and answers[-1].outcome in _DECIDED):
            if answers:
                self._check_limits(live=True)
            for answer in self.oracle.check([program] * min(jobs, self.repeats - len(answers))):
                answers.append(answer)
                if answer.outcome in _DECIDED:
                    break
        telling = min(answers, key=lambda answer: (_TELLING.index(answer.outcome), not answer.equivalent))
        return replace(telling, seconds=sum(answer.seconds for answer in answers))

    def _check_limits(self, *, live: bool) -> None:
        if self.limits.budget is not None and self.queries >= self.limits.budget:
            raise Stopped("budget")
        deadline = self.limits.deadline
        if live and deadline is not None and self.limits.clock() - self._start >= self.share * deadline:
            raise Stopped("deadline")

    def _accept(self, winner: _Candidate) -> None:
        self.plan, self.program = winner.plan, winner.built.program
        self.live, self.names = winner.built.live, winner.built.names
        self.measure = winner.measure
        seconds = self.limits.clock() - self._start
        self.history.append(Accepted(self.name, self.program, size(self.program), self.queries, seconds))
        self._tell("accepted")

    def _tell(self, kind: Literal["pass", "query", "accepted"], answer: Answer | None = None) -> None:
        self.on_event(Event(kind, self.name, self.measure[0], self.queries, answer))


def key_of(text: str) -> str:
    """The journal's key of a program's text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]
