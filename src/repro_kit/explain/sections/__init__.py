"""The sections, in the order in which they are shown; each module words one insight."""

from __future__ import annotations

from dataclasses import replace

from repro_kit.explain.context import Context
from repro_kit.explain.sections import (
    breaks,
    failures,
    guards,
    overview,
    ranks,
    recompiles,
    shapes,
    similar,
    specializations,
)
from repro_kit.explain.view import Item, Section

_MOST = 100  # items of a section

_MODULES = (failures, breaks, recompiles, specializations, shapes, similar, ranks, guards, overview)

#: What ``--section`` takes.
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
    """All sections but the advice; `further` is what torch says of the first specialization in a run of its own."""
    return tuple(
        _short(specializations.section(context, further) if module is specializations else module.section(context))
        for module in _MODULES
    )


def _short(section: Section) -> Section:
    """`section` with as many items as anybody reads; the rest is counted."""
    left = len(section.items) - _MOST
    if left <= 0:
        return section
    return replace(section, items=(*section.items[:_MOST], Item(f"… and {left} more, which --json has")))
