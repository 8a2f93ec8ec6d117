"""The ablation matrix: its cells, and the diagnosis that follows from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from repro_kit.model.ablation.evidence import Chain
from repro_kit.model.ablation.workaround import Workaround
from repro_kit.model.failure.failure import Layer, Verdict
from repro_kit.model.failure.signature import Signature
from repro_kit.model.recipe import Recipe
from repro_kit.model.run_outcome import RunOutcome, outcome_from

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
        return not self.compiled and not self.setup

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
    cause: str = ""  # the part of the layer at fault, if known; see `model/ablation/causes.py`
    chain: Chain | None = None  # narrowing from the layer to its part; None: not narrowed
    failed: int = 0  # how many of `runs` runs of the unchanged subject failed; sets how often a passing cell is run
    runs: int = 0
    program: Literal["captured", "reduced", ""] = ""  # which program the cells ran; "": the script
