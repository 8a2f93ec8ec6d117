"""Draw sentences and sections in a terminal, at any width, with or without colour."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from repro_kit.explain.report import Sentence
from repro_kit.explain.view import Block, Code, Item, Section, Table, Words

_COLOURS = {"✓": "green", "!": "bold yellow", "✗": "bold red", "●": "cyan", "·": "dim"}
_DIFF = {"+": "green", "-": "red", "@": "cyan"}


def draw_sentences(sentences: tuple[Sentence, ...], symbol: Callable[[str], str]) -> RenderableType:
    """The sentences, each behind its mark."""
    grid = RichTable.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for sentence in sentences:
        grid.add_row(Text(symbol(sentence.mark), _COLOURS[sentence.mark]), Text(sentence.text))
    return grid


def draw_section(section: Section) -> RenderableType:
    """A section with all its items."""
    head = Text.assemble((section.title, "bold"), f": {section.summary}" if section.summary else "")
    return Group(head, *(Padding(draw_item(item), (1, 0, 0, 2)) for item in section.items))


def draw_item(item: Item) -> RenderableType:
    """One finding: title, places, then its blocks indented."""
    parts: list[RenderableType] = [Text(item.title, "bold", overflow="fold")]
    parts += [Text(place, "cyan", overflow="fold") for place in item.places]
    parts += [Padding(drawn, (0, 0, 0, 2)) for block in item.blocks for drawn in _block(block)]
    return Group(*parts)


def _block(block: Block) -> Iterator[RenderableType]:
    match block:
        case Words(text):
            yield Text(text, overflow="fold")
        case Code(text, kind):
            yield Group(*(Text(line, _colour(line, kind), overflow="fold") for line in text.splitlines()))
        case Table():
            yield _table(block)


def _colour(line: str, kind: str) -> str:
    return _DIFF.get(line[:1], "") if kind == "diff" else "green" if kind == "shell" else "dim"


def _table(table: Table) -> RichTable:
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in table.columns:
        drawn.add_column(Text(column), overflow="fold")
    for row in table.rows:
        drawn.add_row(*(Text(cell) for cell in row))
    return drawn
