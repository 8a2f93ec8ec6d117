"""Where the graphs of one compile part on two ranks: the first statement that differs, and the values behind it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest

from repro_kit.model.failure.failure import Frame
from repro_kit.trace.graph_text import Statement, statements_of
from repro_kit.trace.guard_text import parse_guard
from repro_kit.trace.insights.guards import leaves
from repro_kit.trace.insights.ranks import Divergence
from repro_kit.trace.places import is_torch
from repro_kit.trace.record import Record

_MOST_VALUES = 5  # values that are listed
_SIZED = "a tensor of size"
_SIZE = re.compile(r"size=(\[[^\]]*\])")
#: Checks of a guard tree that tell a value. Checks of identity hold addresses, which differ in every process.
_OF_VALUES = ("EQUALS_MATCH", "CONSTANT_MATCH", "NONE_MATCH", "TRUE_MATCH", "FALSE_MATCH", "LENGTH_CHECK")


@dataclass(frozen=True)
class GuardedValue:
    """A source that is guarded with another value on each of two ranks, and the user's line that made the guard."""

    source: str
    values: tuple[str, str]
    where: Frame | None = None
    sized: bool = False  # the values are sizes of a tensor


@dataclass(frozen=True)
class Parting:
    """How the graphs of one compile differ on two ranks.

    `statements`: the first that differs, for each rank; None at the end of a graph. Two None if only sizes differ.
    """

    compile_id: str
    ranks: tuple[int, int]
    statements: tuple[Statement | None, Statement | None] = (None, None)
    values: tuple[GuardedValue, ...] = ()

    def sentences(self) -> str:
        """The difference in words, with the user's lines."""
        left, right = self.statements
        words = []
        if left or right:
            same_line = left is not None and right is not None and left.where == right.where
            parts = [
                f"rank {rank} {_statement(statement, same_line)}"
                for rank, statement in zip(self.ranks, self.statements, strict=True)
            ]
            words.append(f"The graphs part where {parts[0]}, and {parts[1]}.")
        for value in self.values:
            pairs = [f"{text} on rank {rank}" for rank, text in zip(self.ranks, value.values, strict=True)]
            code = f" (`{value.where.code}`, {_place(value.where)})" if value.where else ""
            words.append(f"{value.source} is {' and '.join(pairs)}{code}.")
        return " ".join(words)


def _statement(statement: Statement | None, bare: bool) -> str:
    if statement is None:
        return "ends"
    if statement.where is None or is_torch(statement.where.file):
        return f"calls `{statement.text}`"
    if bare:
        return f"calls `{statement.text}` ({_place(statement.where)})"
    return f"goes on with `{statement.where.code}` ({_place(statement.where)})"


def _place(frame: Frame) -> str:
    return f"{frame.file.rpartition('/')[2]}:{frame.line}"


def parting(divergences: Iterable[Divergence], records: Iterable[Record]) -> Parting | None:
    """Look at the first compile whose graphs differ; None if there is none. `records`: those of the whole trace."""
    first = next((divergence for divergence in divergences if divergence.what == "graph"), None)
    if first is None:
        return None
    one, other, *_ = sorted(min(ranks) for _, ranks in first.groups)
    ranks = one, other
    graphs, guards = dict.fromkeys(ranks, ""), dict.fromkeys(ranks, "")
    for record in records:
        if record.compile_id == first.compile_id and record.rank in graphs:
            found = {"dynamo_output_graph": graphs, "dynamo_cpp_guards_str": guards}.get(record.event)
            if found is not None:
                found[record.rank] = record.payload or ""
    files = {frame.file for graph in graphs.values() for frame in _frames(graph)}
    left, right = (_guarded(guards[rank]) for rank in ranks)
    values = tuple(
        GuardedValue(source, (value, right[source][0]), _whole(where, files), sized=value.startswith(_SIZED))
        for source, (value, where) in left.items()
        if source in right and right[source][0] != value
    )
    return Parting(first.compile_id, ranks, _first_apart(*(graphs[rank] for rank in ranks)), values[:_MOST_VALUES])


def _frames(graph: str) -> Iterator[Frame]:
    return (statement.where for statement in statements_of(graph) if statement.where)


def _whole(frame: Frame | None, files: Collection[str]) -> Frame | None:
    """`frame` with its whole path. A guard has the end of the path only (torch/utils/_traceback.py)."""
    known = [file for file in files if frame is not None and file.endswith(frame.file)]
    return replace(frame, file=known[0]) if frame is not None and len(known) == 1 else frame


def _first_apart(left: str, right: str) -> tuple[Statement | None, Statement | None]:
    pairs = zip_longest(statements_of(left), statements_of(right))
    return next((pair for pair in pairs if _text(pair[0]) != _text(pair[1])), (None, None))


def _text(statement: Statement | None) -> str:
    return statement.text if statement else ""


def _guarded(tree: str) -> Mapping[str, tuple[str, Frame | None]]:
    """The value with which each source is guarded. A source with several values is left out."""
    found = {}
    seen: Counter[str] = Counter()
    for leaf in leaves(tree):
        guard = parse_guard(leaf.text)
        size = _SIZE.search(guard.text) if leaf.name == "TENSOR_MATCH" else None
        if size or leaf.name in _OF_VALUES:
            value = f"{_SIZED} {size[1]}" if size else guard.expected or guard.text
            source = f"len({leaf.source})" if leaf.name == "LENGTH_CHECK" else leaf.source or guard.source
            found[source] = (value, guard.where)
            seen[source] += 1
    return {source: value for source, value in found.items() if seen[source] == 1}
