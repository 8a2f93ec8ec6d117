"""Specializations: what became a constant, on whose line."""

from __future__ import annotations

from collections.abc import Iterator

from repro_kit.explain.context import Context, compiled_name, counted, ids, listed
from repro_kit.explain.extra_run import recompiles_of
from repro_kit.explain.view import Block, Code, Item, Section, Words
from repro_kit.trace.insights.specializations import Cause, Specialization

WORDS = {
    Cause.CODE: "the code needs its value",
    Cause.DUCK: "two sizes happened to be equal, and are taken for the same one",
    Cause.ZERO_ONE: "sizes 0 and 1 are always constants",
    Cause.VIOLATED: "it was marked dynamic, and the code makes it a constant",
}


def section(context: Context, further: str = "") -> Section:
    """One item a source and line, in the order in which they happened; `further` is torch's word on the first one."""
    found = context.insights.specializations
    if not found:
        return Section("specializations", "Specializations", "none")
    summary = f"{counted(len(found), 'size or number', 'sizes or numbers')} that could vary became constants"
    items = [_item(context, one) for one in found]
    if further:
        items.insert(1, Item("PyTorch on the first one, in a further run", blocks=(Code(further),)))
    return Section("specializations", "Specializations", summary, tuple(items))


def named(one: Specialization) -> str:
    """What became which constant."""
    if one.cause == Cause.DUCK:
        return " = ".join(one.sources) + (f" = {one.value}" if one.value else "")
    symbol = f" ({one.symbol})" if one.symbol else ""
    return f"{', '.join(one.sources) or one.symbol}{symbol if one.sources else ''} = {one.value}"


def _dependent(context: Context, one: Specialization) -> Iterator[Block]:
    """What came of it: recompiles, and what became a constant after it in the same compile."""
    again = recompiles_of(context.insights, one)
    if again:
        yield Words(f"compiled again for it: {listed(again)}")
    found = context.insights.specializations
    if one.compiles and one is next((it for it in found if it.compiles[:1] == one.compiles[:1]), None):
        after = [named(it) for it in found if it is not one and one.compiles[0] in it.compiles]
        if after:
            yield Words(f"the first one of compile {one.compiles[0]}; after it: {listed(after)}")


def _item(context: Context, one: Specialization) -> Item:
    times = f" ×{one.count}" if one.count > 1 else ""
    blocks: list[Block] = [Words(f"{one.cause}: {WORDS[one.cause]}")]
    if one.framework:
        blocks.append(Words(f"decided in PyTorch at {context.place_in(one.framework)}"))
    if one.reason:
        blocks.append(Words(f"PyTorch: {' '.join(one.reason.split())}"))
    blocks += _dependent(context, one)
    function = f"{compiled_name(one.code.function)} {context.place(one.code)}, " if one.code else ""
    blocks.append(Words(f"in {function}compile {ids(one.compiles, one.count)}"))
    return Item(f"{named(one)}{times}", (context.place_in(one.where),) if one.where else (), tuple(blocks))
