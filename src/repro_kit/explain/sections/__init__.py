"""The sections, in the order in which they are shown. Each module words one insight."""

from __future__ import annotations

from dataclasses import replace

from repro_kit.explain.context import Context
from repro_kit.explain.sections import (
    breaks_section,
    failures_section,
    guards_section,
    overview_section,
    ranks_section,
    recompiles_section,
    shapes_section,
    similar_section,
    specializations_section,
)
from repro_kit.explain.view import Item, Section

_MOST = 100  # items of a section

_MODULES = (
    failures_section, breaks_section, recompiles_section, specializations_section, shapes_section, similar_section,
    ranks_section, guards_section, overview_section,
)  # fmt: skip

#: The values of ``--section``.
NAMES = (
    "advice",
    "failures",
    "breaks",
    "recompiles",
    "specializations",
    "shapes",
    "similar",
    "ranks",
    "guards",
    "overview",
)


def sections(context: Context, further: str = "") -> tuple[Section, ...]:
    """All sections except the advice. `further` is torch's log about the first specialization."""
    return tuple(
        _short(
            specializations_section.section(context, further)
            if module is specializations_section
            else module.section(context)
        )
        for module in _MODULES
    )


def _short(section: Section) -> Section:
    """`section` with at most `_MOST` items; the other items are counted."""
    left = len(section.items) - _MOST
    if left <= 0:
        return section
    return replace(section, items=(*section.items[:_MOST], Item(f"… and {left} more; --json shows all")))
