"""The search for the smallest graph that fails alike: its oracle, its state, its order, and what it can cut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

from repro_kit.graph import DynamicMark, Input, OpaqueInput, Program, TensorInput, render, size
from repro_kit.graph.edits import Built, Edit, apply, rebuild
from repro_kit.graph.effects import Base
from repro_kit.graph.inputs import ZERO_TENSOR
from repro_kit.graph.values import Metadata, ScalarRecord, TensorRecord, is_long_literal, rank
from repro_kit.recipe import Recipe
from repro_kit.reduce.search import Candidate, CandidateOracle, CandidateSearch, Measure
from repro_kit.serialize import to_data


def measure(program: Program, metadata: Metadata, text: str) -> Measure:
    """The criteria, most important first; tuples compare lexicographically, and smaller is better.

    Compute statements, calls, inputs, outputs; stored inputs (a long literal counts half); elements of inputs; special
    properties of inputs (strides, aliasing, gradients, marks); how far values are from ones; recipe settings; ranks;
    threads; literals, and the sum of the whole numbers among them; length of `text`.
    """
    functions = program.all_functions()
    statements = [statement for function in functions for statement in (*function.statements, function.returns)]
    lines = [input_ for input_ in program.all_inputs() if not isinstance(input_, DynamicMark)]
    return (
        size(program),
        len(program.calls),
        len(lines),
        len(program.graph.outputs),
        sum(map(_stored, lines)),
        sum(_elements(line, metadata) for line in lines),
        sum(map(_special, program.all_inputs())),
        sum(map(_values, lines)) + (program.recipe.backward == "randn"),
        settings(program.recipe),
        program.recipe.group.size if program.recipe.group else 0,
        program.recipe.threads or 0,
        sum(statement.constants for statement in statements),
        sum(statement.magnitude for statement in statements),
        len(text),
    )


def settings(recipe: Recipe) -> int:
    """The number of settings that are not at their default; each entry of a dict or list counts."""
    return sum(len(value) if isinstance(value, dict | list) else 1 for value in to_data(recipe).values())


def _stored(line: Input) -> int:
    if isinstance(line, TensorInput):
        return 2 if line.data.kind == "load" else int(is_long_literal(line))
    return 2 * isinstance(line, OpaqueInput)


def _values(line: Input) -> int:
    return rank(line) if isinstance(line, TensorInput) else 0


def _elements(line: Input, metadata: Metadata) -> int:
    if not isinstance(line, TensorInput):
        return 0
    if line.elements is not None:
        return line.elements
    record = metadata.get(line.name)
    return record.elements if isinstance(record, TensorRecord) else 0


def _special(line: Input) -> int:
    if not isinstance(line, TensorInput):
        return int(isinstance(line, DynamicMark))
    marks = (line.strided is not None, line.base is not None, line.requires_grad, line.parameter, line.buffer)
    return sum(marks) + len(line.bits) + (line.data.kind == ZERO_TENSOR)


Proposal = Edit | None


class Oracle(CandidateOracle[Program], Protocol):
    """Runs and judges graphs, and knows the values of a graph.

    One query goes this way: `Search.first` proposes a candidate; `stages/minify/reducer_oracle.py` renders it; the
    runner's oracle sends it to a server, where `repro_probe/query/evaluate.py` runs it in eager and compiled;
    `failure/classify.py` makes a verdict of the reply; `failure/signature.py` holds that against the original's
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

    def size(self, program: Program) -> int:
        """The number of compute statements."""
        return size(program)

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


class Restrictable(Protocol):
    """A base, and what earlier edits left of it: that of a `Search`, or all of it (`Whole`)."""

    @property
    def base(self) -> Base:
        """The program that the edits are of."""
        ...

    @property
    def metadata(self) -> Metadata:
        """The recorded metadata of its values."""
        ...

    @property
    def live(self) -> tuple[int, ...]:
        """Its statements that are left."""
        ...

    @property
    def names(self) -> Mapping[str, str]:
        """What is read in place of a bypassed value."""
        ...

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names that are returned."""
        ...


@dataclass(frozen=True)
class Whole:
    """A program as it is, outside of a search."""

    base: Base
    metadata: Metadata
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def live(self) -> tuple[int, ...]:
        """All statements."""
        return tuple(range(len(self.base.statements)))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names that the graph returns."""
        return self.base.outputs


def part_of(program: Program, metadata: Metadata, statements: Iterable[int]) -> Program | None:
    """`program` with these statements alone; None if that cannot be made of the recorded values."""
    whole = Whole(Base(program), metadata)
    edit = restrict_to(whole, statements)
    return None if edit is None else apply(whole.base, edit, metadata)


def restrict_to(search: Restrictable, statements: Iterable[int]) -> Edit | None:
    """The edit that keeps only `statements`, with the state that they run in; None when nothing would be returned.

    A value that they read from other statements becomes an input. A value that other statements read becomes an output,
    so that no statement dies with its reader (XLA's hlo_bisect cuts in the same way).
    """
    live = set(search.live)
    wanted = live.intersection(statements)
    kept = sorted(wanted | _state(search, wanted, live))
    gone = live.difference(kept)
    if not gone:
        return None
    outputs = _outputs(search, kept, gone)
    return Edit(removed=frozenset(gone), outputs=outputs) if outputs else None


def _state(search: Restrictable, kept: set[int], live: set[int]) -> set[int]:
    """State-setting statements in force at `kept`. A group that encloses none of `kept` is dropped."""
    if not kept or not search.base.states:
        return set()
    low, high = min(kept), max(kept)
    return {at for group in search.base.states if group[0] < high and group[-1] > low for at in group if at in live}


def _outputs(search: Restrictable, kept: Sequence[int], gone: set[int]) -> tuple[str, ...]:
    base = search.base
    returned = dict.fromkeys(search.outputs)
    asked_for = _read(search, gone).union(returned)
    defined = [base.statements[at].target or "" for at in kept]
    outputs = [name for name in defined if name in asked_for and _is_value(search, name)]
    outputs += [name for name in returned if name in base.params]
    if not outputs or all(name in base.params for name in outputs):
        read_by_kept = _read(search, kept)
        outputs += [name for name in defined if name not in read_by_kept and _is_value(search, name)]
        outputs += [name for at in kept for name in base.effects[at].mutates if name not in base.params]
    return tuple(dict.fromkeys(outputs))


def _read(search: Restrictable, statements: Iterable[int]) -> set[str]:
    """The names that `statements` read, after bypasses."""
    read = set(chain.from_iterable(search.base.reads[at] for at in statements))
    return {search.names.get(name, name) for name in read}


def _is_value(search: Restrictable, name: str) -> bool:
    """Whether a graph can return `name`: it is a tensor, not a number or the handle of a state."""
    at = search.base.index.get(name)
    state = at is None or search.base.effects[at].state
    return not state and not isinstance(search.metadata.get(name), ScalarRecord)
