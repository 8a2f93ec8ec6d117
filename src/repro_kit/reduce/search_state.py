"""The reduction of a graph: its oracle, and the state of its search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from repro_kit.program import Program, render
from repro_kit.program.analysis import Base
from repro_kit.program.rebuild import Built, Edit, rebuild
from repro_kit.program.value_records import Metadata
from repro_kit.reduce.candidate_search import Candidate, CandidateSearch, Measure
from repro_kit.reduce.oracle import CandidateOracle
from repro_kit.reduce.order import measure

Proposal = Edit | None


class Oracle(CandidateOracle[Program], Protocol):
    """Runs and judges graphs, and knows the values of a graph.

    One query goes this way: `Search.first` proposes a candidate; `stages/minify/reducer_oracle.py` renders it; the
    runner's oracle sends it to a server, where `repro_probe/query/evaluate.py` runs it in eager and compiled;
    `model/failure/classify.py` makes a verdict of the reply; `model/run_outcome.py` holds that against the original's
    signature; the reducer oracle calls the outcome interesting, equivalent or neither; and `Search` accepts it or not.
    """

    def record(self, program: Program) -> Metadata:
        """The metadata of every value and parameter of the graph on its first call, by name."""
        ...

    def fake_valid(self, programs: Sequence[Program]) -> Sequence[bool | None]:
        """Whether each program runs in eager, judged with fake tensors; None if this cannot decide."""
        ...


@dataclass
class Search(CandidateSearch[Base, Program]):
    """The search for the smallest graph that fails alike. Edits add up on a base until `rebase` makes a new one."""

    oracle: Oracle
    metadata: Metadata = field(default_factory=dict)
    edit: Edit = field(default_factory=Edit)  # of the base, which makes the best program

    def __post_init__(self) -> None:
        super().__post_init__()
        self.program = self.base.program
        self.live: tuple[int, ...] = tuple(range(len(self.base.statements)))
        self.names: Mapping[str, str] = {}  # bypassed name of the base -> the name that replaces it
        self.measure = self.measured(self.program, self.text)

    def render(self, program: Program) -> str:
        """The text of a program."""
        return render(program)

    def measured(self, program: Program, text: str) -> Measure:
        """The size of a program, by the recorded values."""
        return measure(program, self.metadata, text)

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
        self.measure = self.measured(self.program, self.text)

    def rebase(self) -> Base:
        """Continue with the best program as the new base, and record its values anew: the old metadata is outdated."""
        self.base, self.edit = Base(self.program), Edit()
        self.live, self.names = tuple(range(len(self.base.statements))), {}
        self.learn(self.oracle.record(self.program))
        return self.base

    def _plausible(self, candidates: Sequence[Candidate[Program]]) -> Sequence[Candidate[Program]]:
        """The candidates that fake tensors do not show to be invalid."""
        valid = self.oracle.fake_valid([candidate.program for candidate in candidates])
        return [candidate for candidate, fine in zip(candidates, valid, strict=True) if fine is not False]

    def made_by(self, edit: Edit) -> Program | None:
        """The best program with one more edit; None if a new input has no usable metadata."""
        made = self.made_of(edit)
        return made and made[0]

    def made_of(self, proposal: Edit) -> tuple[Program, tuple[Edit, Built]] | None:
        """The program of all edits so far and this one."""
        edit = self.edit + proposal
        built = rebuild(self.base, edit, self.metadata)
        return None if built is None else (built.program, (edit, built))

    def take(self, made: tuple[Edit, Built]) -> None:
        """Remember the edits, and what is left of the base."""
        self.edit, built = made
        self.live, self.names = built.live, built.names
