"""A script as a syntax tree with numbered nodes, edits of it, and the order that decides which of two is smaller."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

#: What takes the place of a node: statements or list items, an expression, or nothing (None).
Replacement: TypeAlias = Sequence[ast.AST] | ast.AST | None
Edits: TypeAlias = Mapping[int, Replacement]  # by the number of the node

_WIDTH = 100  # characters of a line that a reader sees whole
_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")
_HOLDS_VALUE = (ast.Expr, ast.Assign, ast.AugAssign, ast.keyword)  # what goes with its value
#: Fields that a node may lack, and the nodes.
_OPTIONAL: dict[str, tuple[type[ast.AST], ...]] = {
    "returns": (ast.FunctionDef, ast.AsyncFunctionDef),
    "annotation": (ast.arg,),
    "cause": (ast.Raise,),
    "msg": (ast.Assert,),
    "type": (ast.ExceptHandler,),
    "optional_vars": (ast.withitem,),
    "value": (ast.Return, ast.Yield, ast.AnnAssign),
}
_NEVER_EMPTY: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Import: ("names",),
    ast.ImportFrom: ("names",),
    ast.Delete: ("targets",),
    ast.Global: ("names",),
    ast.Nonlocal: ("names",),
}
#: Nodes without a number.
LEAVES = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)


class Impossible(Exception):
    """An edit gives no valid tree."""


@dataclass(frozen=True)
class Script:
    """One file of Python, written by `ast.unparse`."""

    text: str

    @classmethod
    def of(cls, tree: ast.Module) -> Script:
        """The program of `tree`."""
        return cls(ast.unparse(ast.fix_missing_locations(tree)) + "\n")

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree, whose nodes are never changed."""
        return ast.parse(self.text)

    @property
    def compact(self) -> Script:
        """The same program with a block of one plain statement on the line of its header, ``def f(x): return x``, and
        without blank lines below a header, or brackets around several values: ``a, b = 1, 2``.
        """
        before = self.text.splitlines()
        lines = list(before)
        for several in _bare(self.tree, self.text):
            row = several.lineno - 1
            lines[row] = lines[row].removesuffix(ast.unparse(several)) + ast.unparse(several)[1:-1]
        for block in (block for node in ast.walk(self.tree) for block in blocks(node)):
            only = block[0] if len(block) == 1 else None
            if isinstance(only, ast.stmt) and only.lineno == only.end_lineno and not any(blocks(only)):
                header, body = lines[only.lineno - 2], lines[only.lineno - 1].strip()
                if header.endswith(":") and len(header) + len(body) < _WIDTH:
                    lines[only.lineno - 2], lines[only.lineno - 1] = f"{header} {body}", ""
        kept = [line for line, old in zip(lines, before, strict=True) if line or not old]
        shown = (line for above, line in zip(["", *kept], kept, strict=False) if line or not above.endswith(":"))
        joined = Script("\n".join(shown) + "\n")
        return joined if ast.dump(joined.tree) == ast.dump(self.tree) else self


def _bare(tree: ast.Module, text: str) -> Iterator[ast.Tuple]:
    """The values of a statement of one line that need no brackets: two or more, of an assignment or a ``return``."""
    lines = text.splitlines()
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Assign | ast.Return) else None
        if not isinstance(value, ast.Tuple) or len(value.elts) < 2:
            continue
        if lines[value.lineno - 1].endswith(ast.unparse(value)):
            yield value


class NumberedTree:
    """A tree whose nodes have numbers, in the order of the text. Edits name nodes by number."""

    def __init__(self, program: Script) -> None:
        self.program = program
        self.tree = program.tree
        self.nodes: list[ast.AST] = [node for node in preorder(self.tree) if not isinstance(node, LEAVES)]
        self._numbers = {id(node): number for number, node in enumerate(self.nodes)}
        self.parents = {self.number(child): self.number(node) for node in self.nodes for child in self._inner(node)}

    def _inner(self, node: ast.AST) -> Iterator[ast.AST]:
        return (child for child in ast.iter_child_nodes(node) if not isinstance(child, LEAVES))

    def number(self, node: ast.AST) -> int:
        """The number of a node of this tree."""
        return self._numbers[id(node)]

    def number_if_any(self, node: ast.AST) -> int | None:
        """The number of a node; None for one that is not of this tree, or that has no number."""
        return self._numbers.get(id(node))

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node that `node` is part of; None for the whole tree."""
        above = self.parents.get(self.number(node))
        return None if above is None else self.nodes[above]

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes that `node` is part of, the innermost first."""
        outer = self.parent(node)
        while outer is not None:
            yield outer
            outer = self.parent(outer)

    def mentions(self, name: str) -> list[ast.Name]:
        """Every place of a name, in whatever scope."""
        return [node for node in self.nodes if isinstance(node, ast.Name) and node.id == name]

    def only_call(self, mentions: Sequence[ast.expr]) -> ast.Call | None:
        """The call of which the only one of `mentions` is the function; None if there are several, or another use."""
        above = self.parent(mentions[0]) if len(mentions) == 1 else None
        return above if isinstance(above, ast.Call) and above.func is mentions[0] else None

    def edited(self, edits: Edits) -> Script | None:
        """The program with `edits` made; None if they give no program that Python can compile."""
        try:
            tree = self._build(self.tree, edits)
            assert isinstance(tree, ast.Module)
            program = Script.of(tree)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # `"text"()` is legal, and only raises when it runs
                compile(program.text, "script.py", "exec", dont_inherit=True)
        except (Impossible, SyntaxError, ValueError, RecursionError):
            return None
        return program

    def text_with(self, node: ast.AST, edits: Edits) -> str:
        """The text of one node with `edits` made: "" if it is gone; the last of several statements in its place."""
        built = self._build(node, edits)
        last = built[-1] if isinstance(built, list) and built else built
        return ast.unparse(ast.fix_missing_locations(last)) if isinstance(last, ast.AST) else ""

    def _build(self, node: ast.AST, edits: Edits) -> Any:
        """A copy of `node` with edits made: a node, a list of nodes, or None."""
        number = self.number_if_any(node)
        if number is not None and number in edits:
            replacement = edits[number]
            if replacement is None:
                return None
            others = {key: value for key, value in edits.items() if key != number}
            if isinstance(replacement, ast.AST):
                return self._build(replacement, others)
            return self._built_list(replacement, others)
        fields: dict[str, Any] = {}
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                fields[name] = self._built_list(value, edits)
            elif isinstance(value, ast.AST):
                fields[name] = self._build(value, edits)
                if isinstance(fields[name], list):
                    raise Impossible
            else:
                fields[name] = value
        return _tidied(node, fields)

    def _built_list(self, items: Sequence[Any], edits: Edits) -> list[Any]:
        built: list[Any] = []
        for item in items:
            made = self._build(item, edits) if isinstance(item, ast.AST) else item
            if isinstance(made, list):
                built += made
            elif made is not None or item is None:
                built.append(made)
        return built


def _tidied(node: ast.AST, fields: dict[str, Any]) -> Any:
    """The node of `fields`; what an edit has left empty is filled or dropped."""
    for name in _BLOCKS:
        if isinstance(fields.get(name), list):
            fields[name] = [item for item in fields[name] if not isinstance(item, ast.Pass)]
    match node:
        case ast.With() | ast.AsyncWith() if not fields["items"]:
            return fields["body"] or None
        case ast.Try() if not fields["handlers"] and not fields["finalbody"]:
            return [*fields["body"], *fields["orelse"]] or None
        case ast.If() if not fields["body"] and not fields["orelse"]:
            return None
        case ast.BoolOp() if len(fields["values"]) == 1:
            return fields["values"][0]
        case ast.Assign() if not fields["targets"] and fields["value"]:
            return ast.Expr(fields["value"])
    if any(fields.get(name) == [] for name in _NEVER_EMPTY.get(type(node), ())):
        return None
    if isinstance(node, _HOLDS_VALUE) and fields["value"] is None:
        return None
    for name in node._fields:
        optional = isinstance(node, _OPTIONAL.get(name, ()))
        if not optional and fields.get(name) is None and getattr(node, name, None) is not None:
            raise Impossible
    if fields.get("body") == [] and not isinstance(node, ast.Module):
        fields["body"] = [ast.Pass()]
    return type(node)(**fields)


def bound_by(alias: ast.alias) -> str:
    """The name that a part of an import binds; ``*`` for names that are not known."""
    return alias.asname or alias.name.partition(".")[0]


def names_in(*trees: ast.AST) -> set[str]:
    """The names below `trees`, read or bound."""
    return {node.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name)}


def preorder(node: ast.AST) -> Iterator[ast.AST]:
    """`node` and everything below it, in the order of the text."""
    yield node
    for child in ast.iter_child_nodes(node):
        yield from preorder(child)


def blocks(node: ast.AST) -> Iterator[list[Any]]:
    """The lists of statements (or handlers) of a compound statement or a module."""
    for name in _BLOCKS:
        value = getattr(node, name, None)
        if isinstance(value, list):
            yield value


def statements(tree: ast.AST) -> list[ast.stmt]:
    """All statements, in the order of the text."""
    return [node for node in preorder(tree) if isinstance(node, ast.stmt)]


#: Functions that make a tensor of random numbers, and those that make one of ones from the same arguments.
DRAWS = {"randn": "ones", "rand": "ones", "randn_like": "ones_like", "rand_like": "ones_like"}


def measure(program: Script) -> tuple[int, ...]:
    """The criteria, most important first: statements, nodes, random draws, weight of the literals, length of the text.

    Tuples compare lexicographically, and smaller is better.
    """
    statements = nodes = draws = literals = 0
    for node in preorder(program.tree):
        if isinstance(node, LEAVES):
            continue
        nodes += 1
        statements += isinstance(node, ast.stmt) and not isinstance(node, ast.Pass)
        draws += isinstance(node, ast.Attribute) and node.attr in DRAWS
        if isinstance(node, ast.Constant):
            literals += weight(node.value)
    return statements, nodes, draws, literals, len(program.text)


def weight(value: object) -> int:
    """How far a literal is from the plainest one; sizes and numbers count by their magnitude."""
    if isinstance(value, int):
        return abs(int(value)) if abs(int(value)) < 1 << 16 else 1 << 16
    if isinstance(value, float | complex):
        return 2 + len(repr(value))
    if isinstance(value, str | bytes):
        return len(value)
    return 0
