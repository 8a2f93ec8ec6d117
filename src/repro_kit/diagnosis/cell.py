"""The ablation matrix: the plan of a cell, a cell with its outcome in words, and all cells with their diagnosis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from repro_kit.diagnosis.evidence import Chain
from repro_kit.diagnosis.workaround import Workaround
from repro_kit.failure.failure import Layer, Status, Verdict
from repro_kit.failure.signature import RunOutcome, Signature, outcome_from
from repro_kit.recipe import Recipe

SCHEMA = 1


@dataclass(frozen=True)
class Cell:
    """One point of the matrix: a recipe, its verdict, and whether the cell fails like the subject."""

    name: str  # "inductor dynamic=True"
    compiled: bool  # False: plain eager, without torch.compile
    recipe: Recipe
    verdict: Verdict
    signature: Signature | None = None
    same: bool = False  # fails with the subject's signature
    no_effect: str = ""  # why the setting changes nothing here; such a cell is not run and proves nothing
    repeat: str = ""  # command that repeats the cell by hand
    subject: Literal["script", "program"] = "program"  # what was run
    changed: dict[str, object] = field(default_factory=dict)  # axis -> value, if it differs from the subject's own
    inferred: str = ""  # names of the cells that the verdict follows from; this cell was not run
    setup: str = ""  # Python code that was run before anything was compiled
    static: bool = False  # nothing was compiled with a symbolic size; recorded for scripts only
    runs: int = 1  # how often the cell was run; the first failure ends the repetition

    @property
    def is_baseline(self) -> bool:
        """Whether it is the subject without torch.compile, and otherwise as it is."""
        return not self.compiled and not self.setup and "contrast" not in self.changed

    @property
    def outcome(self) -> RunOutcome:
        """The verdict, held against the subject's failure."""
        return outcome_from(self.verdict.status, alike=self.same)


@dataclass(frozen=True)
class Ablation:
    """All cells, and the sentence that names the layer at fault."""

    subject: Literal["script", "program"]
    cells: tuple[Cell, ...] = ()
    layer: Layer | None = None
    sentence: str = ""
    notes: tuple[str, ...] = field(default=())
    schema: int = SCHEMA
    recipe: Recipe = field(default_factory=Recipe)  # the subject's own
    torch: str = ""  # version
    failure: str = ""  # the signature of the subject's failure, in one line
    workarounds: tuple[Workaround, ...] = ()  # tried on the script, least intrusive first
    cause: str = ""  # the part of the layer at fault, if known; see `diagnosis/causes.py`
    chain: Chain | None = None  # narrowing from the layer to its part; None: not narrowed
    failed: int = 0  # how many of `runs` runs of the unchanged subject failed; sets how often a passing cell is run
    runs: int = 0
    program: Literal["captured", "reduced", ""] = ""  # which program the cells ran; "": the script


@dataclass(frozen=True)
class CellPlan:
    """The plan of one cell. On a script, only the fields in `overridden` are changed, from outside the process."""

    name: str
    recipe: Recipe
    compiled: bool = True
    overridden: tuple[str, ...] = ()  # fields of the recipe that differ from the subject's own
    no_effect: str = ""
    axes: Mapping[str, object] = field(default_factory=dict)  # axis -> value, by the user's name of the axis
    setup: str = ""  # Python code to run before anything is compiled


_WORDS = {
    Status.PASS: "passes",
    Status.INVALID: "invalid",
    Status.FLAKY: "flaky",
    Status.CANNOT_TELL: "no verdict",
    Status.NOT_RUN: "not run",
}
_SYMBOLS = {Status.PASS: "✓", Status.INVALID: "–", Status.FLAKY: "~", Status.CANNOT_TELL: "?", Status.NOT_RUN: "·"}


def word(cell: Cell) -> str:
    """The verdict in one or two words; a cell that was not run says so."""
    if cell.no_effect:
        return "no effect"
    verdict = "fails" if cell.same else _WORDS.get(cell.verdict.status, "fails differently")
    return f"{verdict} (inferred)" if cell.inferred else verdict


def symbol(cell: Cell) -> str:
    """The verdict as one character."""
    if cell.no_effect:
        return "·"
    if cell.inferred:
        return "≈"
    if cell.same:
        return "✗"
    return _SYMBOLS.get(cell.verdict.status, "!")


def remark(cell: Cell) -> str:
    """The remark beside the verdict."""
    if cell.no_effect:
        return cell.no_effect
    if cell.inferred:
        return f"follows from {cell.inferred}"
    if "parting" in cell.changed:
        return cell.verdict.note
    runs = f" ({cell.runs} runs)" if cell.runs > 1 else ""
    if cell.same:
        return f"{cell.verdict.note or 'as described'}{runs}"
    if cell.signature is not None and cell.outcome is not RunOutcome.PASSES:
        return f"{cell.signature.summary()}{runs}"
    return f"{cell.verdict.note}{runs}".strip()
