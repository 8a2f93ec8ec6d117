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
from repro_kit.visible import visible

_COLOURS = {"✓": "green", "!": "bold yellow", "✗": "bold red", "●": "cyan", "·": "dim"}
_DIFF = {"+": "green", "-": "red", "@": "cyan"}


def draw_sentences(sentences: tuple[Sentence, ...], symbol: Callable[[str], str]) -> RenderableType:
    """The sentences, each behind its mark."""
    grid = RichTable.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for sentence in sentences:
        grid.add_row(Text(symbol(sentence.mark), _COLOURS[sentence.mark]), _text(sentence.text))
    return grid


def draw_section(section: Section) -> RenderableType:
    """A section with all its items."""
    head = Text.assemble((visible(section.title), "bold"), visible(f": {section.summary}" if section.summary else ""))
    return Group(head, *(Padding(draw_item(item), (1, 0, 0, 2)) for item in section.items))


def draw_item(item: Item) -> RenderableType:
    """One finding: title, places, then its blocks indented."""
    parts: list[RenderableType] = [_text(item.title, "bold")]
    parts += [_text(source_line, "cyan") for source_line in item.places]
    parts += [Padding(drawn, (0, 0, 0, 2)) for block in item.blocks for drawn in _block(block)]
    return Group(*parts)


def _text(text: str, style: str = "") -> Text:
    return Text(visible(text), style, overflow="fold")


def _block(block: Block) -> Iterator[RenderableType]:
    match block:
        case Words(text):
            yield _text(text)
        case Code(text, kind):
            yield Group(*(_text(line, _colour(line, kind)) for line in text.splitlines()))
        case Table():
            yield _table(block)


def _colour(line: str, kind: str) -> str:
    return _DIFF.get(line[:1], "") if kind == "diff" else "green" if kind == "shell" else "dim"


def _table(table: Table) -> RichTable:
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in table.columns:
        drawn.add_column(_text(column), overflow="fold")
    for row in table.rows:
        drawn.add_row(*(_text(cell) for cell in row))
    return drawn
