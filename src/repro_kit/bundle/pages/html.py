"""`report.html`: the whole story as one page that loads nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from html import escape

from markupsafe import Markup

from repro_kit.bundle.pages import markdown
from repro_kit.bundle.pages.drawings import MOST, curve, draw, nodes_of
from repro_kit.bundle.pages.templates import render
from repro_kit.bundle.story.answer_lines import answers, contrast_line, located
from repro_kit.bundle.story.issue_form import FORM, labels_of, searches
from repro_kit.bundle.story.story import Story
from repro_kit.bundle.story.title import headline_of, title_of
from repro_kit.bundle.story.title_facts import readable
from repro_kit.diagnosis.cell import Cell, remark, symbol, word
from repro_kit.diagnosis.report import layout
from repro_kit.graph import Program, size
from repro_kit.graph.program_text import render_function

_STATES = {"✗": "fails", "✓": "passes"}  # by the first symbol of a verdict
LONGEST_LOG = 60_000
_LONGEST_KERNEL = 200  # lines
_MARK = 200  # characters of the line that says what was cut


@dataclass(frozen=True)
class CellRow:
    """One row of the list of cells. `state` is ``fails``, ``passes`` or ``other``, for the page's filter."""

    name: str
    state: str
    verdict: str
    remark: str
    repeat: str


@dataclass(frozen=True)
class Picture:
    """A graph: its drawing (empty when it is too large), and its text."""

    statements: int
    svg: str
    text: str


def report(story: Story) -> tuple[str, dict[str, str]]:
    """The page, and the texts that replace the marks in it."""
    code = markdown.marks(story)
    after, before = readable(story.program), readable(story.original)
    page = render(
        "report.html.j2",
        story=story,
        files=[(name, mark) for mark, (name, _) in zip(code, markdown.code_of(story), strict=True)],
        title=title_of(story),
        headline=headline_of(story),
        contrast=contrast_line(story),
        answers=[*answers(story)],
        located=located(story),
        kernel=markdown.shown_kernel(story.answers.kernel, _LONGEST_KERNEL),
        labels=labels_of(story),
        form=FORM,
        searches=searches(story),
        grid=layout(story.ablation) if story.ablation else None,
        states=_STATES,
        rows=[_row(cell) for cell in story.ablation.cells] if story.ablation else [],
        aspect_words=partial(markdown.aspect_words, minimal=story.minimal),
        before=_picture(before, "The captured graph", after),
        after=_picture(after, "The reduced graph", None),
        most=MOST,
        curve=Markup(curve(story.reduction)) if story.reduction and story.reduction.steps else "",
        twin=list(_diff_lines(story.twin.diff)) if story.twin else [],
        log=markdown.middle_cut(markdown.without_warnings(markdown.steady(story.log)), LONGEST_LOG + _MARK),
    )
    return page, {mark: escape(text) for mark, text in code.items()}


def _row(cell: Cell) -> CellRow:
    return CellRow(
        cell.name, _STATES.get(symbol(cell), "other"), f"{symbol(cell)} {word(cell)}", remark(cell), cell.repeat
    )


def _picture(program: Program | None, name: str, kept: Program | None) -> Picture | None:
    """A drawing of `program`; statements that `kept` still has are highlighted."""
    if program is None:
        return None
    same = {statement.line for statement in kept.graph.statements} if kept else set()
    targets = {statement.target for statement in kept.graph.statements if statement.target} if kept else set()
    marked = {
        statement.target
        for statement in program.graph.statements
        if statement.target and (statement.line in same or statement.target in targets)
    }
    return Picture(size(program), Markup(draw(nodes_of(program), name, marked)), functions_of(program))


def functions_of(program: Program) -> str:
    """The text of the graphs of all ranks, and of the bodies of their higher-order operators."""
    return "\n\n\n".join(render_function(function).strip("\n") for function in program.all_functions())


def _diff_lines(diff: str) -> Iterator[tuple[str, str]]:
    """(class, line) of a unified diff."""
    kinds = {"+": "added", "-": "removed", "@": "place"}
    for line in diff.splitlines():
        yield ("place" if line.startswith(("+++", "---")) else kinds.get(line[:1], "same")), line
