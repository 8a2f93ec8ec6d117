"""One statement of a program: its canonical text, and facts derived from it."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

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
