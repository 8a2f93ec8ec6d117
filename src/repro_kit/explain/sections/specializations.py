"""Specializations: what became a constant, on whose line."""

from __future__ import annotations

from repro_kit.explain.context import Context, counted, ids, plain_name
from repro_kit.explain.view import Block, Item, Section, Words
from repro_kit.trace.insights.specializations import Cause, Specialization

WORDS = {
    Cause.CODE: "the code needs its value",
    Cause.DUCK: "two sizes happened to be equal, and are taken for the same one",
    Cause.ZERO_ONE: "sizes 0 and 1 are always constants",
    Cause.VIOLATED: "it was marked dynamic, and the code makes it a constant",
}


def section(context: Context) -> Section:
    """One item a source and line, in the order in which they happened."""
    found = context.insights.specializations
    if not found:
        return Section("specializations", "Specializations", "none")
    summary = f"{counted(len(found), 'size or number', 'sizes or numbers')} that could vary became constants"
    items = [_item(context, one) for one in found]
    return Section("specializations", "Specializations", summary, tuple(items))


def named(one: Specialization) -> str:
    """What became which constant."""
    if one.cause == Cause.DUCK:
        return " = ".join(one.sources) + (f" = {one.value}" if one.value else "")
    symbol = f" ({one.symbol})" if one.symbol else ""
    return f"{', '.join(one.sources) or one.symbol}{symbol if one.sources else ''} = {one.value}"


def _item(context: Context, one: Specialization) -> Item:
    times = f" ×{one.count}" if one.count > 1 else ""
    blocks: list[Block] = [Words(f"{one.cause}: {WORDS[one.cause]}")]
    if one.framework:
        blocks.append(Words(f"decided in PyTorch at {context.place_in(one.framework)}"))
    if one.reason:
        blocks.append(Words(f"PyTorch: {' '.join(one.reason.split())}"))
    function = f"{plain_name(one.code.function)} {context.place(one.code)}, " if one.code else ""
    blocks.append(Words(f"in {function}compile {ids(one.compiles, one.count)}"))
    return Item(f"{named(one)}{times}", (context.place_in(one.where),) if one.where else (), tuple(blocks))
