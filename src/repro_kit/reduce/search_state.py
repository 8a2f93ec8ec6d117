"""The state of the reduction of a graph: the smallest program so far, and the building of the candidates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from repro_kit.program import Program, render
from repro_kit.program.analysis import Base
from repro_kit.program.program_edits import Edit, planned
from repro_kit.program.rebuild import Built, Plan, rebuild
from repro_kit.program.value_records import Metadata
from repro_kit.reduce.candidate_search import Candidate, CandidateSearch, key_of
from repro_kit.reduce.oracle import Oracle
from repro_kit.reduce.order import measure

Proposal = Sequence[Edit] | None


@dataclass(frozen=True)
class _Built(Candidate[Program]):
    plan: Plan
    built: Built


@dataclass
class Search(CandidateSearch[Base, Program]):
    """The search for the smallest graph that fails alike."""

    oracle: Oracle
    metadata: Metadata = field(default_factory=dict)
    plan: Plan = field(default_factory=Plan)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.program = self.base.program
        self.live: tuple[int, ...] = tuple(range(len(self.base.statements)))
        self.names: Mapping[str, str] = {}  # bypassed name of the base -> the name that replaces it
        self.measure = measure(self.program, self.metadata, self.text)

    @property
    def text(self) -> str:
        """The best program as text."""
        return render(self.program)

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

    def learn(self, metadata: Metadata) -> None:
        """Use the recorded metadata of the base's values."""
        self.metadata = metadata
        self.measure = measure(self.program, metadata, self.text)

    def rebase(self) -> None:
        """Continue with the best program as the new base, and record its values anew: the old metadata is outdated."""
        self.base, self.plan = Base(self.program), Plan()
        self.live, self.names = tuple(range(len(self.base.statements))), {}
        self.learn(self.oracle.record(self.program))

    def _plausible(self, candidates: Sequence[Candidate[Program]]) -> Sequence[Candidate[Program]]:
        """The candidates that fake tensors do not show to be invalid."""
        valid = self.oracle.fake_valid([candidate.program for candidate in candidates])
        return [candidate for candidate, fine in zip(candidates, valid, strict=True) if fine is not False]

    def _candidates(self, proposals: Iterable[object]) -> Iterator[_Built]:
        seen: set[str] = set()
        for index, edits in enumerate(cast(Iterable[Proposal], proposals)):
            if not edits:
                continue
            plan = planned(edits, self.plan)
            built = rebuild(self.base, plan, self.metadata)
            if built is None:
                continue
            text = render(built.program)
            key = key_of(text)
            if key in seen or not self.is_new(key):
                continue
            seen.add(key)
            size_ = measure(built.program, self.metadata, text)
            if size_ < self.measure:
                yield _Built(index, built.program, size_, key, plan, built)

    def _take(self, winner: Candidate[Program]) -> None:
        assert isinstance(winner, _Built)
        self.plan = winner.plan
        self.live, self.names = winner.built.live, winner.built.names
