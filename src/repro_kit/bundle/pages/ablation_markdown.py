"""An ablation as Markdown, to paste into an issue."""

from __future__ import annotations

from collections.abc import Sequence

from repro_kit.model.ablation.cell import Ablation
from repro_kit.model.ablation.evidence import chain_markdown
from repro_kit.model.ablation.grid import layout
from repro_kit.model.ablation.workaround import markdown as workarounds


def markdown(ablation: Ablation) -> str:
    """The sentence that names the layer, and the table of the cells with the commands that repeat them."""
    about = f"`{ablation.failure}`" if ablation.failure else "The failure"
    version = f", torch {ablation.torch}" if ablation.torch else ""
    lines = [f"**Ablation** of {about} on the {ablation.subject}{version}. {ablation.sentence}", ""]
    lines += [tables(ablation), "", *(f"- {note}" for note in ablation.notes)]
    if ablation.chain is not None:
        lines += ["", chain_markdown(ablation.chain)]
    lines += ["", workarounds(ablation.workarounds)]
    return "\n".join(lines).rstrip() + "\n"


def tables(ablation: Ablation, most: int | None = None) -> str:
    """The grid of the cells, and a list of at most `most` cells that do not fit into the grid."""
    made = layout(ablation)
    lines = _table(made.columns, made.rows)
    header, *rest = made.listed()
    lines += ["", *_table(header, rest[:most])] if made.rest else []
    if most is not None and len(made.rest) > most:
        lines += ["", f"{len(made.rest) - most} more cells are in `ablation.json` of the bundle."]
    return "\n".join([*lines, "", *made.notes, *filter(None, [made.legend])]).rstrip()


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [columns, ["---"] * len(columns), *rows]
    return ["| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in line) + " |" for line in lines]
