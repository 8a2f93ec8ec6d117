"""The state of the reduction of a source program."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from repro_kit.reduce.candidate_search import Candidate, CandidateSearch, key_of
from repro_kit.source import SourceProgram, measure
from repro_kit.source.decisive import keeps
from repro_kit.source.scopes import bound, local_names
from repro_kit.source.tree import Edits, NumberedTree

Proposal = Edits | None
_KNOWN = {*dir(builtins), "__file__", "__name__", "__doc__", "__spec__", "__class__"}


@dataclass(frozen=True)
class _Edited(Candidate[SourceProgram]):
    edits: Edits


@dataclass
class SourceSearch(CandidateSearch[NumberedTree, SourceProgram]):
    """The search for the smallest script that fails alike.

    `decisive`: statements, as text, that decide whether the script fails; every candidate has them unchanged.
    `failing_lines`: lines of the original where the failure showed, such as those of its traceback.
    `values` and `items`: what expressions returned when the original ran, and the first items of loops, by their text.
    """

    decisive: tuple[str, ...] = ()
    failing_lines: tuple[int, ...] = ()
    values: Mapping[str, ast.expr] = field(default_factory=dict)
    items: Mapping[str, ast.expr] = field(default_factory=dict)
    bound: bool = True  # a candidate that reads one more name which nothing binds is not judged
    edits: Edits = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.program = self.base.program
        self.measure = measure(self.program)
        self._free = unbound(self.program)

    @property
    def text(self) -> str:
        """The best program as text."""
        return self.program.text

    def rebase(self) -> NumberedTree:
        """Number the nodes of the best program anew; returns the tree."""
        if self.edits:
            self.base, self.edits = NumberedTree(self.program), {}
        return self.base

    def allowed(self, program: SourceProgram) -> bool:
        """Whether the program still has what decides; with `bound`, also what binds the names that it reads."""
        if self.bound and not unbound(program) <= self._free:
            return False
        return not self.decisive or keeps(program, self.decisive)

    def _candidates(self, proposals: Iterable[object]) -> Iterator[_Edited]:
        seen: set[str] = set()
        for index, edits in enumerate(cast(Iterable[Proposal], proposals)):
            if not edits:
                continue
            together = {**self.edits, **edits}
            program = self.base.edited(together)
            if program is None:
                continue
            key = key_of(program.text)
            if key in seen or not self.is_new(key):
                continue
            seen.add(key)
            size = measure(program)
            if size < self.measure and self.allowed(program):
                yield _Edited(index, program, size, key, together)

    def _take(self, winner: Candidate[SourceProgram]) -> None:
        assert isinstance(winner, _Edited)
        self.edits = winner.edits
        self._free = unbound(winner.program)


def unbound(program: SourceProgram) -> set[str]:
    """The names that the program reads, and that neither it nor Python binds."""
    tree = program.tree
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    if read <= _KNOWN:
        return set()
    declared = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    return read - _KNOWN - bound(tree.body) - local_names(tree) - declared
