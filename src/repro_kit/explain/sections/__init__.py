"""The sections, in the order in which they are shown. One function words one insight."""

from __future__ import annotations

from dataclasses import replace

from repro_kit.explain.context import Context
from repro_kit.explain.report import Item, Section
from repro_kit.explain.sections.advice_section import ranks_section
from repro_kit.explain.sections.compiles import (
    breaks_section,
    failures_section,
    kernels_section,
    overview_section,
    recompiles_section,
)
from repro_kit.explain.sections.shapes import guards_section, shapes_section, similar_section, specializations_section

_MOST = 100  # items of a section

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
    "kernels",
    "guards",
    "overview",
)


def sections(context: Context, further: str = "") -> tuple[Section, ...]:
    """All sections except the advice. `further` is torch's log about the first specialization."""
    found = (
        failures_section(context),
        breaks_section(context),
        recompiles_section(context),
        specializations_section(context, further),
        shapes_section(context),
        similar_section(context),
        ranks_section(context),
        kernels_section(context),
        guards_section(context),
        overview_section(context),
    )
    return tuple(map(_short, found))


def _short(section: Section) -> Section:
    """`section` with at most `_MOST` items; the other items are counted."""
    left = len(section.items) - _MOST
    if left <= 0:
        return section
    return replace(section, items=(*section.items[:_MOST], Item(f"… and {left} more; --json shows all")))
