"""The outcome of a cell in words, the same in tables, Markdown and issues."""

from __future__ import annotations

from repro_kit.model.ablation.cell import Cell
from repro_kit.model.failure.failure import Status
from repro_kit.model.run_outcome import RunOutcome

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
