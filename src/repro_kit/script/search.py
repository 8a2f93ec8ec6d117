"""The state of the search for the smallest script that fails alike."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from repro_kit.reduce.search import Candidate, CandidateSearch, Measure
from repro_kit.script import Script, measure
from repro_kit.script.failing_statements import keeps
from repro_kit.script.recording import RecordedTexts
from repro_kit.script.scopes import bound, local_names
from repro_kit.script.tree import Edits, NumberedTree

Proposal = Edits | None
_KNOWN = {*dir(builtins), "__file__", "__name__", "__doc__", "__spec__", "__class__"}


@dataclass(frozen=True)
class _Edited:
    """What the search remembers of a candidate: its own edits of `base`, and `edits`, these with the earlier ones."""

    base: NumberedTree
    own: Edits
    edits: Edits

    @cached_property
    def change(self) -> str:
        """What its own edits change, as text: each node with the expression around it, and what takes its place."""
        parts: list[str] = []
        for number, replacement in self.own.items():
            node = self.base.nodes[number]
            above = self.base.parent(node)
            around = above if isinstance(above, ast.expr | ast.keyword) else node
            placed = replacement if isinstance(replacement, Sequence) else [replacement]
            texts = ["" if part is None else ast.dump(part) for part in placed]
            parts.append(f"{ast.dump(around)} {number - self.base.number(around)} {texts}")
        return "\n".join(parts)


@dataclass
class ScriptSearch(CandidateSearch[NumberedTree, Script]):
    """The search for the smallest script that fails alike.

    `decisive`: statements, as text, that decide whether the script fails; every candidate has them unchanged.
    `failing_lines`: lines of the original where the failure showed, such as those of its traceback.
    `values` and `items`: what expressions returned when the original ran, and the first items of loops, by their text.
    `record`: runs a shorter script and records anew; an expression that had several values may have one value in it.
    Until `thorough` is set, a change that was refused is not tried again while the script changes elsewhere.
    """

    decisive: tuple[str, ...] = ()
    failing_lines: tuple[int, ...] = ()
    values: Mapping[str, ast.expr] = field(default_factory=dict)
    items: Mapping[str, ast.expr] = field(default_factory=dict)
    record: Callable[[Script], RecordedTexts] = lambda program: RecordedTexts({}, {})
    bound: bool = True  # a candidate that reads one more name which nothing binds is not judged
    thorough: bool = False
    edits: Edits = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.program = self.base.program
        self.measure = measure(self.program)
        self._free = unbound(self.program)
        self._refused: set[str] = set()
        self._recorded = self.text  # the program whose values are known

    def render(self, program: Script) -> str:
        """The text of a script."""
        return program.text

    def measured(self, program: Script, text: str) -> Measure:
        """The size of a script."""
        return measure(program)

    def size(self, program: Script) -> int:
        """The number of statements."""
        return measure(program)[0]

    def rebase(self) -> NumberedTree:
        """Number the nodes of the best program anew; returns the tree."""
        if self.edits:
            self.base, self.edits = NumberedTree(self.program), {}
        return self.base

    def record_anew(self) -> None:
        """Learn the values and the first items in the best program, if it was not recorded yet, and there is time."""
        self._check_limits(live=True)
        if self._recorded != self.text:
            texts, self._recorded = self.record(self.program), self.text
            self.values, self.items = {**self.values, **texts.values}, {**self.items, **texts.items}

    def allowed(self, program: Script) -> bool:
        """Whether the program still has what decides; with `bound`, also what binds the names that it reads."""
        if self.bound and not unbound(program) <= self._free:
            return False
        return not self.decisive or keeps(program, self.decisive)

    def made_of(self, proposal: Edits) -> tuple[Script, _Edited] | None:
        """The script of all edits so far and these."""
        together = {**self.edits, **proposal}
        program = self.base.edited(together)
        return None if program is None else (program, _Edited(self.base, proposal, together))

    def _admits(self, program: Script, made: _Edited) -> bool:
        if not self.allowed(program) or (made.change in self._refused and not self.thorough):
            return False
        self._refused.add(made.change)
        return True

    def _judge(self, batch: Sequence[Candidate[Script]], equivalent: bool) -> Candidate[Script] | None:
        winner = super()._judge(batch, equivalent)
        if winner is not None:  # the others after it are not judged
            self._refused -= {candidate.made.change for candidate in batch[batch.index(winner) :]}
        return winner

    def take(self, made: _Edited) -> None:
        """Remember the edits, and the names that nothing binds."""
        self.edits = made.edits
        self._free = unbound(self.program)


def unbound(program: Script) -> set[str]:
    """The names that the program reads, and that neither it nor Python binds."""
    tree = program.tree
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    if read <= _KNOWN:
        return set()
    declared = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    return read - _KNOWN - bound(tree.body) - local_names(tree) - declared
