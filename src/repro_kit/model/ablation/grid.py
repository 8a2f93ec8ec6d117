"""The layout of an ablation: backends by dynamic setting as a grid, the other cells as a list."""

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
    "~": "~ flaky",
    "?": "? no verdict",
}


@dataclass(frozen=True)
class Layout:
    """The grid (`columns`, and `rows` that begin with a label), numbered `notes`, and `rest`: cell, verdict, remark."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    rest: tuple[tuple[str, str, str], ...]
    legend: str

    def listed(self) -> tuple[tuple[str, ...], ...]:
        """`rest` below its header; an empty last column is left out."""
        rows = (("further cells", "verdict", ""), *self.rest)
        return rows if any(remark for _, _, remark in self.rest) else tuple(row[:2] for row in rows)


def layout(ablation: Ablation) -> Layout:
    """The layout of all cells. A cell that varies only backend and dynamic setting is in the grid."""
    gridded: dict[tuple[str, object], Cell] = {}
    for cell in ablation.cells:
        if _in_grid(cell, ablation):
            gridded.setdefault((cell.recipe.backend, cell.recipe.dynamic), cell)
    in_grid = [dynamic for _, dynamic in gridded]
    settings = [dynamic for dynamic in FIELDS["dynamic"] if dynamic in in_grid]
    notes: dict[str, int] = {}
    rows = [_baseline(cell, len(settings)) for cell in ablation.cells if cell.is_baseline]
    for backend in dict.fromkeys(backend for backend, _ in gridded):
        row = [
            _short(gridded[backend, setting], notes) if (backend, setting) in gridded else "" for setting in settings
        ]
        rows.append((backend, *row))
    rest = [cell for cell in ablation.cells if not cell.is_baseline and cell not in gridded.values()]
    listed = tuple(_listed(cell, notes) for cell in rest)
    used = {symbol(cell) for cell in (*gridded.values(), *rest)}
    legend = "   ".join(words for mark, words in _LEGEND.items() if mark in used)
    columns = ("backend", *(f"dynamic={setting}" for setting in settings))
    return Layout(columns, tuple(rows), tuple(f"[{number}] {note}" for note, number in notes.items()), listed, legend)


def counts(cells: Sequence[Cell]) -> str:
    """How many cells there are: run, inferred and not run, in words."""
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
    verdict = _short(cell, notes)
    plain = cell.same and not cell.inferred and cell.runs == 1
    return cell.name, verdict, "" if plain or verdict.endswith("]") else remark(cell)


def _short(cell: Cell, notes: dict[str, int]) -> str:
    """The verdict in one or two words; details of another failure become a numbered note."""
    verdict = word(cell).removesuffix(" (inferred)")
    if "parting" in cell.changed:
        return f"{symbol(cell)} {verdict} [{notes.setdefault(remark(cell), len(notes) + 1)}]"
    text = f"{symbol(cell)} {_SHORT.get(verdict, verdict)}"
    if cell.verdict.measured and not cell.inferred:
        return f"{text}: {cell.verdict.measured}"
    if verdict != "fails differently" or cell.inferred or not remark(cell):
        return text
    return f"{text} [{notes.setdefault(remark(cell), len(notes) + 1)}]"
