"""The section on specializations: which size or number became a constant, and on which line."""

from __future__ import annotations

from collections.abc import Iterator

from repro_kit.explain.context import Context, compiled_name, counted, ids, listed
from repro_kit.explain.extra_run import recompiles_of
from repro_kit.explain.view import Block, Code, Item, Section, Words
from repro_kit.trace.insights.specializations import Cause, Specialization

WORDS = {
    Cause.CODE: "the code needs the value",
    Cause.DUCK: "two sizes happened to be equal, so torch treats them as one",
    Cause.ZERO_ONE: "sizes 0 and 1 are always constants",
    Cause.VIOLATED: "the size was marked dynamic, but the code makes it a constant",
}


def specializations_section(context: Context, further: str = "") -> Section:
    """One item for each source and line, in the order in which they happened.

    `further` is torch's log about the first one.
    """
    all_of_them = context.insights.specializations
    if not all_of_them:
        return Section("specializations", "Specializations", "none")
    summary = f"{counted(len(all_of_them), 'size or number', 'sizes or numbers')} that could vary became constants"
    items = [_specialization(context, specialization) for specialization in all_of_them]
    if further:
        items.insert(1, Item("PyTorch's log about the first one, from an extra run", blocks=(Code(further),)))
    return Section("specializations", "Specializations", summary, tuple(items))


def name_of_specialization(specialization: Specialization) -> str:
    """Which size or number became which constant."""
    if specialization.cause == Cause.DUCK:
        return " = ".join(specialization.sources) + (f" = {specialization.value}" if specialization.value else "")
    symbol = f" ({specialization.symbol})" if specialization.symbol and specialization.sources else ""
    return f"{', '.join(specialization.sources) or specialization.symbol}{symbol} = {specialization.value}"


def _dependent(context: Context, specialization: Specialization) -> Iterator[Block]:
    """What followed: recompiles, and later specializations in the same compile."""
    again = recompiles_of(context.insights, specialization)
    if again:
        yield Words(f"recompiled because of it: {listed(again)}")
    all_of_them = context.insights.specializations
    if specialization.compiles and specialization is next(
        (other for other in all_of_them if other.compiles[:1] == specialization.compiles[:1]), None
    ):
        after = [
            name_of_specialization(other)
            for other in all_of_them
            if other is not specialization and specialization.compiles[0] in other.compiles
        ]
        if after:
            yield Words(f"the first specialization of compile {specialization.compiles[0]}; after it: {listed(after)}")


def _specialization(context: Context, specialization: Specialization) -> Item:
    times = f" ×{specialization.count}" if specialization.count > 1 else ""
    blocks: list[Block] = [Words(f"{specialization.cause}: {WORDS[specialization.cause]}")]
    if specialization.framework:
        blocks.append(Words(f"decided in PyTorch at {context.place_in(specialization.framework)}"))
    if specialization.reason:
        blocks.append(Words(f"PyTorch: {' '.join(specialization.reason.split())}"))
    blocks += _dependent(context, specialization)
    function = (
        f"{compiled_name(specialization.code.function)} {context.place(specialization.code)}, "
        if specialization.code
        else ""
    )
    blocks.append(Words(f"in {function}compile {ids(specialization.compiles, specialization.count)}"))
    return Item(
        f"{name_of_specialization(specialization)}{times}",
        (context.place_in(specialization.where),) if specialization.where else (),
        tuple(blocks),
    )
