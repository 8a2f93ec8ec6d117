"""An ablation on the terminal: the plan before the run, and the table of cells after it."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from repro_kit.diagnosis.cell import Ablation, CellPlan, word
from repro_kit.diagnosis.report import counts, layout
from repro_kit.diagnosis.workaround import Workaround, rows
from repro_kit.stages.ablate.cells.base import Cells
from repro_kit.stages.ablate.cells.program_cells import OnProgram
from repro_kit.ui import Ui


def plan_sentence(plans: Sequence[CellPlan], cells: Cells) -> str:
    """How many cells there are, how many must run, how often each runs unless it fails, and how long that takes."""
    settled = [cell for cell in map(cells.settled, plans) if cell is not None]
    without = sum(bool(cell.no_effect) for cell in settled)
    cached = len(settled) - without
    parts = [f"{len(plans) - len(settled)} to run"]
    parts += [f"{cached} known from before"] if cached else []
    parts += [f"{without} without effect here"] if without else []
    repeat = cells.options.repeat
    seconds = repeat * cells.usual() * ceil((len(plans) - len(settled)) / max(1, cells.options.jobs))
    about = f", about {_time(seconds)}" if seconds >= 1 else ""
    about = about if repeat == 1 else f", up to {repeat} times each{about} where none fails"
    return f"{len(plans)} ways to compile the {subject_words(cells)}: {', '.join(parts)}{about}."


def subject_words(cells: Cells) -> str:
    """The subject of the cells, in words."""
    return f"{cells.which} program" if isinstance(cells, OnProgram) else cells.subject


def plan_rows(plans: Sequence[CellPlan], cells: Cells) -> list[str]:
    """The cells, one line each, with the verdicts that are known."""
    rows = []
    for plan in plans:
        settled = cells.settled(plan)
        state = ": to be run" if settled is None else f": {word(settled)}, {settled.no_effect or 'known from before'}"
        rows.append(f"{plan.name}{state}")
    return rows


def show(ablation: Ablation, ui: Ui) -> None:
    """Print the matrix as tables: backends by dynamic setting, then the other settings."""
    table = layout(ablation)
    on = f"{ablation.program} program" if ablation.program else ablation.subject
    ui.table(f"Ablation on the {on}, {counts(ablation.cells)}", table.columns, table.rows)
    if table.rest:
        ui.table("", table.listed()[0], table.listed()[1:])
    if not ui.quiet:
        for line in filter(None, (*table.notes, table.legend)):
            ui.print(f"  {line}")


def show_workarounds(workarounds: Sequence[Workaround], ui: Ui) -> None:
    """Print the workarounds that were tried, and the code of those that work."""
    ui.table(
        "Workarounds, tried on the script",
        ["least intrusive first", "", "time of a call, or what happens"],
        rows(workarounds),
    )
    for workaround in () if ui.quiet else workarounds:
        if workaround.works:
            ui.print(
                "\n".join([f"  {workaround.name}, {workaround.place}:", *(f"    {line}" for line in workaround.lines)])
            )


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
