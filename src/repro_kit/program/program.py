"""The program: one tensor graph as straight-line Python (docs/explanation/program-format.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from repro_kit.model.recipe import Recipe
from repro_kit.program.inputs import DynamicMark, Input, TensorInput
from repro_kit.program.statement import Statement

#: Decorator of a body that is compiled once for all its calls (`invoke_subgraph` in a graph).
REGION = "torch.compiler.nested_compile_region"


@dataclass(frozen=True)
class Function:
    """`graph` or a body: parameters, statements, and the returned expression (a statement without target)."""

    name: str
    params: tuple[str, ...]
    statements: tuple[Statement, ...]
    returns: Statement
    decorators: tuple[str, ...] = ()  # of a body; only REGION

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The names that the returned expression reads, each once."""
        return self.returns.reads

    def with_(self, **changes: Any) -> Function:
        """A copy with fields replaced."""
        return replace(self, **changes)


@dataclass(frozen=True)
class Peer:
    """What some ranks of a real process group run in place of `graph` and `calls`: `peer_graph` and `peer_calls`."""

    graph: Function
    bodies: tuple[Function, ...] = ()
    inputs: tuple[Input, ...] = ()
    calls: tuple[tuple[str, ...], ...] = ((),)

    def functions(self) -> Iterator[Function]:
        """The bodies, then the graph."""
        yield from self.bodies
        yield self.graph


@dataclass(frozen=True)
class Program:
    """A program: equal programs render to equal text."""

    graph: Function
    bodies: tuple[Function, ...] = ()
    inputs: tuple[Input, ...] = ()  # lines of `calls()`, in order
    calls: tuple[tuple[str, ...], ...] = ((),)  # names of inputs, one tuple per call
    recipe: Recipe = field(default_factory=Recipe)
    imports: tuple[str, ...] = ()  # besides the standard ones, one statement each
    preamble: str = ""
    doc: str = ""
    peer: Peer | None = None  # the ranks that run it are `recipe.group.others`

    def with_(self, **changes: Any) -> Program:
        """A copy with fields replaced."""
        return replace(self, **changes)

    def functions(self) -> Iterator[Function]:
        """The bodies, then the graph."""
        yield from self.bodies
        yield self.graph

    def all_functions(self) -> Iterator[Function]:
        """The functions of the peer, if there is one, then those of the program."""
        if self.peer is not None:
            yield from self.peer.functions()
        yield from self.functions()

    def all_inputs(self) -> Iterator[Input]:
        """The lines of `peer_calls`, if there is a peer, then those of `calls`."""
        if self.peer is not None:
            yield from self.peer.inputs
        yield from self.inputs

    @property
    def stored(self) -> tuple[str, ...]:
        """Files in ``inputs/`` that the program loads, each once."""
        names = [
            input_.data.file
            for input_ in self.all_inputs()
            if isinstance(input_, TensorInput) and input_.data.kind == "load"
        ]
        return tuple(dict.fromkeys(name for name in names if name is not None))


def without_marks(program: Program) -> Program:
    """`program` without ``mark_dynamic`` and similar marks, as a static compile needs it."""
    return program.with_(inputs=tuple(input_ for input_ in program.inputs if not isinstance(input_, DynamicMark)))


def size(program: Program) -> int:
    """The number of compute statements, bodies and the peer's included: all but plain getitems, names and literals."""
    return sum(statement.is_compute for function in program.all_functions() for statement in function.statements)
