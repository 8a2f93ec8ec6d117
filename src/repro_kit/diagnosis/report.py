"""Views of an ablation: its layout as a table, the changes since another one, and whether it is as expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from repro_kit.diagnosis.axes import FIELDS
from repro_kit.diagnosis.cell import Ablation, Cell, remark, symbol, word
from repro_kit.failure.failure import Layer, Status
from repro_kit.failure.signature import RunOutcome

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


KEYS = ("layer", "cause", "fails", "passes")


@dataclass(frozen=True)
class Expectation:
    """One expectation. `key` is one of `KEYS`; for ``fails`` and ``passes``, `value` is the name of a cell."""

    key: str
    value: str

    def unmet(self, ablation: Ablation) -> str:
        """Why the ablation does not meet the expectation, in one sentence; "" when it does."""
        match self.key:
            case "layer":
                return _other("layer", self.value, str(ablation.layer) if ablation.layer else "none")
            case "cause":
                return _other("cause", self.value, ablation.cause or "none")
        cell = next((candidate for candidate in ablation.cells if candidate.name == self.value), None)
        if cell is None:
            return f"Expected that cell {self.value!r} {self.key}; the ablation has no such cell."
        met = cell.same if self.key == "fails" else cell.outcome is RunOutcome.PASSES
        return "" if met else f"Expected that cell {self.value!r} {self.key}; its verdict is: {word(cell)}."


def parse_expectation(text: str) -> Expectation:
    """The expectation that ``KEY=VALUE`` states. Raises ValueError for any other text."""
    key, given, value = text.partition("=")
    if not given or not value or key not in KEYS:
        raise ValueError(f"{text!r} is not an expectation: give one of {', '.join(f'{key}=VALUE' for key in KEYS)}.")
    layers = [*map(str, Layer), "none"]
    if key == "layer" and value not in layers:
        raise ValueError(f"There is no layer {value!r}; the layers are {', '.join(layers)}.")
    return Expectation(key, value)


def _other(name: str, expected: str, actual: str) -> str:
    return "" if actual == expected else f"Expected {name} {expected}, found {actual}."
