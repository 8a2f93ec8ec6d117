"""An ablation as Markdown, to paste into an issue."""

from __future__ import annotations

from repro_kit.model.cell import Ablation
from repro_kit.model.cell_words import remark, symbol, word


def markdown(ablation: Ablation) -> str:
    """The sentence that names the layer, and the table of the cells with the commands that repeat them."""
    about = f"`{ablation.failure}`" if ablation.failure else "The failure"
    version = f", torch {ablation.torch}" if ablation.torch else ""
    lines = [f"**Ablation** of {about} on the {ablation.subject}{version}. {ablation.sentence}", ""]
    lines += ["| cell | verdict | |", "|---|---|---|"]
    for cell in ablation.cells:
        lines.append(f"| {_escaped(cell.name)} | {symbol(cell)} {word(cell)} | {_escaped(remark(cell))} |")
    lines += ["", *(f"- {note}" for note in ablation.notes)]
    return "\n".join(lines).rstrip() + "\n"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
