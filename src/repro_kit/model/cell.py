"""The ablation matrix: cells, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from repro_kit.model.evidence import Chain
from repro_kit.model.failure import Layer, Verdict
from repro_kit.model.recipe import Recipe
from repro_kit.model.signature import Signature


@dataclass(frozen=True)
class Cell:
    """One point of the matrix: a recipe, its verdict, and whether its failure is the one that is looked for."""

    name: str  # "inductor dynamic=True"
    compiled: bool  # False: plain eager, without torch.compile
    recipe: Recipe
    verdict: Verdict
    signature: Signature | None = None
    same: bool = False  # fails with the subject's signature
    no_effect: str = ""  # why the setting changes nothing here; such a cell is no evidence
    repeat: str = ""  # command that repeats the cell by hand


@dataclass(frozen=True)
class Ablation:
    """All cells, and the sentence that names the layer at fault."""

    subject: Literal["script", "program"]
    cells: tuple[Cell, ...] = ()
    layer: Layer | None = None
    sentence: str = ""
    notes: tuple[str, ...] = field(default=())
    chain: Chain | None = None  # from the layer on to the part of it; None: not narrowed
