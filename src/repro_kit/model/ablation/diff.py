"""Two ablations of one failure, say with two versions of torch: what is different."""

from __future__ import annotations

from dataclasses import dataclass

from repro_kit.model.ablation.cell import Ablation, Cell
from repro_kit.model.ablation.words import word


@dataclass(frozen=True)
class CellChange:
    """One thing that differs; `before` or `after` is empty where there was no such cell."""

    what: str
    before: str
    after: str


def changes(before: Ablation, after: Ablation) -> list[CellChange]:
    """What differs from `before` to `after`: the layer, its cause, and cells of one name whose verdict is another."""
    found = [
        CellChange("layer", str(before.layer or "none"), str(after.layer or "none")),
        CellChange("cause", before.cause or "none", after.cause or "none"),
    ]
    old, new = {cell.name: cell for cell in before.cells}, {cell.name: cell for cell in after.cells}
    found += [CellChange(name, _told(old.get(name)), _told(new.get(name))) for name in dict.fromkeys([*old, *new])]
    return [it for it in found if it.before != it.after]


def _told(cell: Cell | None) -> str:
    if cell is None:
        return ""
    other = cell.verdict.failure is not None and not cell.same and cell.signature is not None
    return f"{word(cell)}: {cell.signature.summary()}" if other and cell.signature else word(cell)
