"""What `explain` shows, independent of the output: a section has items, an item has blocks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Table:
    """Columns and rows of text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Code:
    """Verbatim lines; `kind` is ``diff``, ``shell`` or ``text``."""

    text: str
    kind: str = "text"


Block = Words | Table | Code


@dataclass(frozen=True)
class Item:
    """One finding: a title, the places (``file:line``), and the details."""

    title: str
    places: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True)
class Section:
    """All findings of one insight. `name` is the value of ``--section``; `summary` is one sentence."""

    name: str
    title: str
    summary: str
    items: tuple[Item, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show."""
        return not self.items
