"""All that `explain` shows, ready to be drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from repro_kit.explain.view import Section

#: ``✓`` as it should be, ``!`` costs something, ``✗`` failed, ``●`` what to do, ``·`` worth knowing.
Mark = Literal["✓", "!", "✗", "●", "·"]


@dataclass(frozen=True)
class Sentence:
    """One of the sentences that come first; `section` has the details."""

    mark: Mark
    text: str
    section: str = ""


@dataclass(frozen=True)
class ExplainReport:
    """What is known of one trace."""

    subject: str
    sentences: tuple[Sentence, ...]
    sections: tuple[Section, ...]

    def section(self, name: str) -> Section | None:
        """The section called `name`."""
        return next((section for section in self.sections if section.name == name), None)
