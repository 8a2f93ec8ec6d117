"""What is shown, whatever it is shown on: a section has items, an item has blocks."""

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
    """Lines that are shown as they are; `kind`: ``diff``, ``shell``, ``text``."""

    text: str
    kind: str = "text"


Block = Words | Table | Code


@dataclass(frozen=True)
class Item:
    """One finding: what it is, where (``file:line``), and the details."""

    title: str
    places: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True)
class Section:
    """All that one insight found. `name` is what ``--section`` takes; `summary` one sentence."""

    name: str
    title: str
    summary: str
    items: tuple[Item, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show."""
        return not self.items
