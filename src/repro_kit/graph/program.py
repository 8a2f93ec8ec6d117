"""The program: one tensor graph as straight-line Python (docs/explanation/program-format.md)."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

from repro_kit.graph.inputs import DynamicMark, Input, TensorInput
from repro_kit.recipe import Recipe

_LITERAL_START = tuple("-0123456789'\"")
_OPERATION = (ast.Call, ast.BinOp, ast.Compare, ast.Name, ast.Subscript, ast.Attribute)


@dataclass(frozen=True)
class Statement:
    """``target = text``, or `text` alone: a statement with an effect, or (as a function's `returns`) an expression.

    `text` is canonical (``ast.unparse``) and one line long. Derived facts are computed once and cached, so that
    programs that share statements share this work.
    """

    target: str | None
    text: str

    @cached_property
    def line(self) -> str:
        """The line of the statement in the program."""
        return self.text if self.target is None else f"{self.target} = {self.text}"

    @cached_property
    def node(self) -> ast.stmt:
        """The syntax tree of `text`."""
        return ast.parse(self.text).body[0]

    @cached_property
    def expression(self) -> ast.expr | None:
        """The syntax tree of `text` when it is an expression."""
        return self.node.value if isinstance(self.node, ast.Expr) else None

    @cached_property
    def callee(self) -> str:
        """The text of the called function; "" when the statement is no call."""
        call = self.expression
        if not isinstance(call, ast.Call):
            return ""
        return self.text.encode()[call.func.col_offset : call.func.end_col_offset].decode()

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """The names that the statement reads, each once, in the order of the text (globals such as ``torch`` too)."""
        return tuple(dict.fromkeys(name for _, _, name in self._slots))

    @cached_property
    def getitem(self) -> tuple[str, int] | None:
        """(value, index) of a plain ``x[<int>]``; None for any other statement."""
        text = self.text
        if self.target is None or text[-1:] != "]":
            return None
        name, _, index = text[:-1].partition("[")
        return (name, int(index)) if name.isidentifier() and index.isascii() and index.isdigit() else None

    @cached_property
    def is_compute(self) -> bool:
        """Whether the statement counts in the size of a program: all but plain getitems, names and literals."""
        if self.target is None:
            return True
        if self.getitem is not None or self.text.isidentifier():
            return False
        literal = self.text[:1] in _LITERAL_START and not any(
            isinstance(part, _OPERATION) for part in ast.walk(self.node)
        )
        return not literal

    @cached_property
    def constants(self) -> int:
        """The number of literals."""
        return sum(isinstance(part, ast.Constant) for part in ast.walk(self.node))

    @cached_property
    def magnitude(self) -> int:
        """The sum of the numbers among the literals; one that is not whole counts more."""
        return sum(_magnitude(part.value) for part in ast.walk(self.node) if isinstance(part, ast.Constant))

    @cached_property
    def _slots(self) -> tuple[tuple[int, int, str], ...]:
        """The positions of the names that are read: (start, end, name), in bytes of the UTF-8 text."""
        nodes = list(ast.walk(self.node))
        names = [part for part in nodes if isinstance(part, ast.Name)]
        own = {part.id for part in names if not isinstance(part.ctx, ast.Load)}
        own |= {part.arg for part in nodes if isinstance(part, ast.arg)}
        if isinstance(self.node, ast.AugAssign) and isinstance(self.node.target, ast.Name):
            own.discard(self.node.target.id)
        return tuple(
            sorted((part.col_offset, part.end_col_offset or 0, part.id) for part in names if part.id not in own)
        )

    def substitute(self, names: Mapping[str, str]) -> Statement:
        """This statement with some of its names replaced; itself when it reads none of `names`."""
        if names.keys().isdisjoint(self.reads):
            return self
        reads = tuple(names.get(name, name) for name in self.reads)
        statement = self._substituted.get(reads)
        if statement is None:
            data = self.text.encode()
            pieces, at = [], 0
            for start, end, name in self._slots:
                pieces += [data[at:start], names.get(name, name).encode()]
                at = end
            statement = Statement(self.target, b"".join([*pieces, data[at:]]).decode())
            self._substituted[reads] = _with_facts(statement, reads, self.constants, self.magnitude)
        return statement

    @cached_property
    def _substituted(self) -> dict[tuple[str, ...], Statement]:
        """The statements that `substitute` made, by the names that they read."""
        return {}


def _magnitude(value: object) -> int:
    if type(value) is float:
        return 2 + int(min(value, 1e18))
    return value if type(value) is int else 0


def tuple_of(names: Sequence[str]) -> Statement:
    """The expression ``(a, b)``."""
    return _with_facts(Statement(None, f"({', '.join(names)}{',' if len(names) == 1 else ''})"), names, 0, 0)


def _with_facts(statement: Statement, reads: Sequence[str], constants: int, magnitude: int) -> Statement:
    """`statement` with its facts filled in instead of derived: the reducer makes thousands of these."""
    statement.__dict__.update(reads=tuple(dict.fromkeys(reads)), constants=constants, magnitude=magnitude)
    return statement


def canonical(target: str | None, node: ast.AST) -> Statement:
    """The statement for a syntax tree (an expression, or a statement without a target)."""
    return Statement(target, ast.unparse(node))


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
