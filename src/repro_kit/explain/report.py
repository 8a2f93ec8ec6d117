"""What `explain` shows, independent of the output: a report has sections, a section has items; and as a page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from repro_kit import __version__
from repro_kit.templating import templates_dir


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


#: ``✓`` good, ``!`` costs something, ``✗`` failed, ``●`` advice, ``·`` remark.
Mark = Literal["✓", "!", "✗", "●", "·"]


@dataclass(frozen=True)
class Sentence:
    """One sentence of the summary; `section` names the section with the details."""

    mark: Mark
    text: str
    section: str = ""


@dataclass(frozen=True)
class ExplainReport:
    """The explanation of one trace."""

    subject: str
    sentences: tuple[Sentence, ...]
    sections: tuple[Section, ...]

    def section(self, name: str) -> Section | None:
        """The section called `name`."""
        return next((section for section in self.sections if section.name == name), None)


def page(report: ExplainReport) -> str:
    """`report` as HTML."""
    return _environment().get_template("explain.html.j2").render(report=report, version=__version__)


def _coded(text: str) -> Markup:
    """`text` as HTML, with everything in backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(part) if at % 2 else escape(part) for at, part in enumerate(parts))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(templates_dir()),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["coded"] = _coded
    for kind in (Words, Table, Code):
        environment.tests[kind.__name__.lower()] = lambda value, kind=kind: isinstance(value, kind)
    return environment
