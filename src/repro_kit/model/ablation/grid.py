"""The cells of an ablation laid out: backends by dynamic setting as a grid, the others as a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from repro_kit.model.ablation.axis import FIELDS
from repro_kit.model.ablation.cell import Ablation, Cell
from repro_kit.model.ablation.words import remark, symbol, word
from repro_kit.model.failure.failure import Status

_SHORT = {"fails differently": "other"}
_LEGEND = {
    "✗": "✗ fails as described",
    "!": "! fails differently, which is no evidence",
    "≈": "≈ inferred, not run",
    "·": "· not run",
    "~": "~ comes and goes",
    "?": "? no verdict",
}


@dataclass(frozen=True)
class Layout:
    """`columns` and `rows` of the grid, each with a label first; `notes` by number; `rest`: (cell, verdict, remark)."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    rest: tuple[tuple[str, str, str], ...]
    legend: str

    def listed(self) -> tuple[tuple[str, ...], ...]:
        """`rest` below its header, without a column that is empty."""
        rows = (("further cells", "verdict", ""), *self.rest)
        return rows if any(remark for _, _, remark in self.rest) else tuple(row[:2] for row in rows)


def layout(ablation: Ablation) -> Layout:
    """The layout of all cells; what differs in nothing but backend and dynamic setting is in the grid."""
    gridded: dict[tuple[str, object], Cell] = {}
    for it in ablation.cells:
        if _in_grid(it, ablation):
            gridded.setdefault((it.recipe.backend, it.recipe.dynamic), it)
    settings = [it for it in FIELDS["dynamic"] if any(dynamic == it for _, dynamic in gridded)]
    notes: dict[str, int] = {}
    rows = [_baseline(cell, len(settings)) for cell in ablation.cells if not cell.compiled]
    for backend in dict.fromkeys(backend for backend, _ in gridded):
        row = [
            _short(gridded[backend, setting], notes) if (backend, setting) in gridded else "" for setting in settings
        ]
        rows.append((backend, *row))
    rest = [cell for cell in ablation.cells if cell.compiled and cell not in gridded.values()]
    listed = tuple(_listed(it, notes) for it in rest)
    used = {symbol(it) for it in (*gridded.values(), *rest)}
    legend = "   ".join(told for mark, told in _LEGEND.items() if mark in used)
    columns = ("backend", *(f"dynamic={setting}" for setting in settings))
    return Layout(columns, tuple(rows), tuple(f"[{at}] {told}" for told, at in notes.items()), listed, legend)


def counts(cells: Sequence[Cell]) -> str:
    """How many cells were run, and how many not."""
    inferred = sum(bool(cell.inferred) for cell in cells)
    left_out = sum(bool(cell.no_effect) or cell.verdict.status is Status.NOT_RUN for cell in cells)
    parts = [f"{len(cells) - inferred - left_out} run"]
    parts += [f"{inferred} inferred"] if inferred else []
    parts += [f"{left_out} not run"] if left_out else []
    return f"{len(cells)} cells: {', '.join(parts)}"


def _in_grid(cell: Cell, ablation: Ablation) -> bool:
    return cell.compiled and cell.subject == ablation.subject and set(cell.changed) <= {"backend", "dynamic"}


def _baseline(cell: Cell, width: int) -> tuple[str, ...]:
    return (cell.name, f"{symbol(cell)} {word(cell)}", *[""] * (width - 1))


def _listed(cell: Cell, notes: dict[str, int]) -> tuple[str, str, str]:
    told = _short(cell, notes)
    plain = cell.same and not cell.inferred and cell.runs == 1
    return cell.name, told, "" if plain or told.endswith("]") else remark(cell)


def _short(cell: Cell, notes: dict[str, int]) -> str:
    """One or two words; what there is to say of another failure is a numbered note."""
    told = word(cell).removesuffix(" (inferred)")
    if "parting" in cell.changed:
        return f"{symbol(cell)} {told} [{notes.setdefault(remark(cell), len(notes) + 1)}]"
    text = f"{symbol(cell)} {_SHORT.get(told, told)}"
    if cell.verdict.measured and not cell.inferred:
        return f"{text}: {cell.verdict.measured}"
    if told != "fails differently" or cell.inferred or not remark(cell):
        return text
    return f"{text} [{notes.setdefault(remark(cell), len(notes) + 1)}]"
