"""The differences between two ablations of one failure, for example with two versions of torch."""

from __future__ import annotations

from dataclasses import dataclass

from repro_kit.model.ablation.cell import Ablation, Cell
from repro_kit.model.ablation.words import word


@dataclass(frozen=True)
class CellChange:
    """One difference. `what`: "layer", "cause" or a cell's name. `before` or `after` is empty without such a cell."""

    what: str
    before: str
    after: str


def changes(before: Ablation, after: Ablation) -> list[CellChange]:
    """The differences from `before` to `after`: layer, cause, and each cell whose verdict changed."""
    differences = [
        CellChange("layer", str(before.layer or "none"), str(after.layer or "none")),
        CellChange("cause", before.cause or "none", after.cause or "none"),
    ]
    old, new = {cell.name: cell for cell in before.cells}, {cell.name: cell for cell in after.cells}
    differences += [
        CellChange(name, _in_words(old.get(name)), _in_words(new.get(name))) for name in dict.fromkeys([*old, *new])
    ]
    return [difference for difference in differences if difference.before != difference.after]


def _in_words(cell: Cell | None) -> str:
    if cell is None:
        return ""
    other = cell.verdict.failure is not None and not cell.same and cell.signature is not None
    return f"{word(cell)}: {cell.signature.summary()}" if other and cell.signature else word(cell)
