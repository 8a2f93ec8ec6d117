"""Everything that `explain` shows, ready to draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from repro_kit.explain.view import Section

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
