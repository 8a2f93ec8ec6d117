"""The program: one tensor graph as straight-line Python (docs/explanation/program-format.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

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

    def mapped(self, change: Callable[[Statement], Statement]) -> Function:
        """The function with other statements."""
        return self.with_(statements=tuple(map(change, self.statements)))

    def substituted(self, names: Mapping[str, str]) -> Function:
        """The function with some of the names that it reads replaced."""
        changed = self.mapped(lambda statement: statement.substitute(names))
        return changed.with_(returns=self.returns.substitute(names))


@dataclass(frozen=True)
class Code:
    """Functions, and the calls of `graph` with their inputs."""

    graph: Function
    bodies: tuple[Function, ...] = ()
    inputs: tuple[Input, ...] = ()  # lines of `calls()`, in order
    calls: tuple[tuple[str, ...], ...] = ((),)  # names of inputs, one tuple per call

    def with_(self, **changes: Any) -> Self:
        """A copy with fields replaced."""
        return replace(self, **changes)

    def functions(self) -> Iterator[Function]:
        """The bodies, then the graph."""
        yield from self.bodies
        yield self.graph

    def mapped(self, change: Callable[[Function], Function]) -> Self:
        """A copy with other functions."""
        return self.with_(graph=change(self.graph), bodies=tuple(map(change, self.bodies)))

    def with_inputs(self, change: Callable[[Input], Input]) -> Self:
        """A copy with other lines of inputs."""
        return self.with_(inputs=tuple(map(change, self.inputs)))


class Peer(Code):
    """What some ranks of a real process group run in place of `graph` and `calls`: `peer_graph` and `peer_calls`."""


@dataclass(frozen=True)
class Program(Code):
    """A program: equal programs render to equal text."""

    recipe: Recipe = field(default_factory=Recipe)
    imports: tuple[str, ...] = ()  # besides the standard ones, one statement each
    preamble: str = ""
    doc: str = ""
    peer: Peer | None = None  # the ranks that run it are `recipe.group.others`

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


def reached(bodies: Sequence[Function], graph: Function) -> tuple[Function, ...]:
    """The bodies that `graph` reaches, in their order."""
    if not bodies:
        return ()
    by_name = {body.name: body for body in bodies}
    reachable: set[str] = set()
    queue = [graph]
    while queue:
        function = queue.pop()
        fresh = {name for statement in function.statements for name in statement.reads if name in by_name} - reachable
        reachable |= fresh
        queue += [by_name[name] for name in fresh]
    return tuple(body for body in bodies if body.name in reachable)


def without_marks(program: Program) -> Program:
    """`program` without ``mark_dynamic`` and similar marks, as a static compile needs it."""
    return program.with_(inputs=tuple(input_ for input_ in program.inputs if not isinstance(input_, DynamicMark)))


def size(program: Program) -> int:
    """The number of compute statements, bodies and the peer's included: all but plain getitems, names and literals."""
    return sum(statement.is_compute for function in program.all_functions() for statement in function.statements)
