"""One statement of a program: canonical text, and what can be told from it."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

_LITERAL_START = tuple("-0123456789'\"")
_OPERATION = (ast.Call, ast.BinOp, ast.Compare, ast.Name, ast.Subscript, ast.Attribute)


@dataclass(frozen=True)
class Statement:
    """``target = text``, or `text` alone: a statement for its effect, or (as a function's `returns`) an expression.

    `text` is canonical (``ast.unparse``) and one line. What is derived from it is computed once and kept, so that
    programs that share statements share the work.
    """

    target: str | None
    text: str

    @cached_property
    def line(self) -> str:
        """The statement as it stands in the program."""
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
        """Text of what is called; empty when the statement is no call."""
        call = self.expression
        if not isinstance(call, ast.Call):
            return ""
        return self.text.encode()[call.func.col_offset : call.func.end_col_offset].decode()

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """Names that the statement reads, each once, in the order of the text (globals such as ``torch`` too)."""
        return tuple(dict.fromkeys(name for _, _, name in self._slots))

    @cached_property
    def getitem(self) -> tuple[str, int] | None:
        """(value, index) of a plain ``x[<int>]``, else None."""
        text = self.text
        if self.target is None or text[-1:] != "]":
            return None
        name, _, index = text[:-1].partition("[")
        return (name, int(index)) if name.isidentifier() and index.isascii() and index.isdigit() else None

    @cached_property
    def is_compute(self) -> bool:
        """Whether it counts in the size of a program: all but plain getitems, names and literals."""
        if self.target is None:
            return True
        if self.getitem is not None or self.text.isidentifier():
            return False
        literal = self.text[:1] in _LITERAL_START and not any(isinstance(it, _OPERATION) for it in ast.walk(self.node))
        return not literal

    @cached_property
    def constants(self) -> int:
        """Number of literals."""
        return sum(isinstance(part, ast.Constant) for part in ast.walk(self.node))

    @cached_property
    def _slots(self) -> tuple[tuple[int, int, str], ...]:
        """Where names are read: (start, end, name), offsets in bytes of the UTF-8 text."""
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
        """This statement with names that it reads replaced; itself when none is concerned."""
        if names.keys().isdisjoint(self.reads):
            return self
        reads = tuple(names.get(name, name) for name in self.reads)
        known = self._substituted.get(reads)
        if known is None:
            data = self.text.encode()
            pieces, at = [], 0
            for start, end, name in self._slots:
                pieces += [data[at:start], names.get(name, name).encode()]
                at = end
            known = Statement(self.target, b"".join([*pieces, data[at:]]).decode())
            self._substituted[reads] = _told(known, reads, self.constants)
        return known

    @cached_property
    def _substituted(self) -> dict[tuple[str, ...], Statement]:
        """Statements that `substitute` made, by what they read."""
        return {}


def tuple_of(names: Sequence[str]) -> Statement:
    """The expression ``(a, b)``."""
    return _told(Statement(None, f"({', '.join(names)}{',' if len(names) == 1 else ''})"), names, 0)


def _told(statement: Statement, reads: Sequence[str], constants: int) -> Statement:
    """`statement`, with what need not be read off its text: the reducer makes thousands of these."""
    statement.__dict__.update(reads=tuple(dict.fromkeys(reads)), constants=constants)
    return statement


def canonical(target: str | None, node: ast.AST) -> Statement:
    """The statement for a syntax tree (an expression, or a statement without a target)."""
    return Statement(target, ast.unparse(node))
