"""What `explain` prints: the sentences, then the sections that were asked for."""

from __future__ import annotations

from collections.abc import Sequence

from repro_kit.explain.report import Report
from repro_kit.explain.terminal import draw_section, draw_sentences
from repro_kit.ui import Ui


def show(ui: Ui, report: Report, names: Sequence[str]) -> None:
    """The sentences; the sections called `names` (``all``: those that say something), else how to get at them."""
    ui.show(draw_sentences(report.sentences, ui.symbol))
    wanted = [it for it in report.sections if it.name in names or ("all" in names and not it.empty)]
    for section in wanted:
        ui.print("")
        ui.show(draw_section(section))
    there = [it.name for it in report.sections if not it.empty and it not in wanted]
    if not wanted and there:
        ui.note(f"Details: --section {'|'.join(there)}, or all; --html FILE for a page.")
