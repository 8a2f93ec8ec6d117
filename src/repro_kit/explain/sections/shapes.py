"""The sections on shapes: dynamic shapes, specializations, similar graphs, and guards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from repro_kit.explain.context import Context, compiled_name, counted, ids, listed, seconds
from repro_kit.explain.extra_run import recompiles_of
from repro_kit.explain.report import Block, Code, Item, Section, Table, Words
from repro_kit.trace.dynamo_text import Guard
from repro_kit.trace.insights.compile_index import SimilarGraphs
from repro_kit.trace.insights.dynamic_shapes import Symbol
from repro_kit.trace.insights.guards import GuardGroup, Guards
from repro_kit.trace.insights.specializations import Cause, Specialization

_MOST_SYMBOLS = 100


def shapes_section(context: Context) -> Section:
    """Symbols, blocked sources, constants of kernels, the profile's suggestion."""
    shapes = context.insights.shapes
    items = []
    if shapes.symbols:
        rows = [_symbol_row(context, symbol) for symbol in shapes.symbols[:_MOST_SYMBOLS]]
        if len(shapes.symbols) > _MOST_SYMBOLS:
            rows.append((f"… {len(shapes.symbols) - _MOST_SYMBOLS} more", "", "", "", "", ""))
        columns = ("symbol", "source", "made by", "seen as", "range", "first used")
        items.append(Item("Sizes and numbers that are symbols", blocks=(Table(columns, tuple(rows)),)))
    items += [
        Item(
            f"{blocked.source} changes, but stays a constant",
            (context.place(blocked.code),) if blocked.code else (),
            (Words(f"because of {blocked.setting}"), Words(f"seen as {listed(blocked.values)}")),
        )
        for blocked in shapes.blocked
    ]
    items += [
        Item(
            f"Triton kernel {kernel.kernel}: every value of {listed(kernel.arguments)} is a kernel of its own",
            blocks=(Words(f"tl.constexpr; compile {ids(kernel.compiles)}"),),
        )
        for kernel in shapes.kernels
    ]
    if shapes.suggested:
        items.append(Item("PyTorch's profile suggests", blocks=(Words(", ".join(shapes.suggested)),)))
    if not items:
        return Section("shapes", "Dynamic shapes", "none")
    summary = counted(len(shapes.symbols), "symbol")
    summary += f", {len(shapes.blocked)} kept constant by a setting" if shapes.blocked else ""
    return Section("shapes", "Dynamic shapes", summary, tuple(items))


def _symbol_row(context: Context, symbol: Symbol) -> tuple[str, ...]:
    used = context.place(symbol.where) or (compiled_name(symbol.code.function) if symbol.code else "")
    return symbol.symbol, symbol.source, str(symbol.origin), listed(symbol.hints), symbol.range, used


def similar_section(context: Context) -> Section:
    """One item for each group."""
    groups = context.insights.similar
    if not groups:
        return Section("similar", "Similar graphs", "none")
    spare = sum(group.count - 1 for group in groups)
    summary = f"{counted(spare, 'compile repeats', 'compiles repeat')} a graph with other sizes"
    return Section("similar", "Similar graphs", summary, tuple(_similar_graphs(context, group) for group in groups))


def _similar_graphs(context: Context, group: SimilarGraphs) -> Item:
    names = dict.fromkeys(compiled_name(member.code.function) for member in group.members if member.code)
    took = f", {seconds(group.seconds)} for all but the first" if group.seconds else ""
    title = f"{', '.join(names) or 'graphs'}: {group.count} compiles of the same {counted(group.ops, 'op')}{took}"
    rows = tuple((str(member.compile), *member.sizes) for member in group.members)
    places = dict.fromkeys(context.place(member.code) for member in group.members if member.code)
    return Item(title, tuple(places)[:5], (Table(("compile", *group.inputs), rows),))


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


_MOST_GUARDS = 40
_SAYING = (Guard.VALUE, Guard.SIZE, Guard.STRIDE, Guard.PRESENCE)  # kinds whose check says more than its source
_CHECK = 90  # characters of a guard


def guards_section(context: Context) -> Section:
    """Differing guards first, then shapes, costs, and all others."""
    guards = context.insights.guards
    if not guards.total and not guards.groups:
        return Section("guards", "Guards", "none in this trace")
    return Section("guards", "Guards", counted(guards.total, "guard"), tuple(_guard_items(context, guards)))


def _guard_items(context: Context, guards: Guards) -> Iterator[Item]:
    for differing in guards.differing:
        times = f"compiled {len(differing.compiles)} times"
        title = f"{compiled_name(differing.name)}: the same graph, {times} because of guards that are not about sizes"
        places = (context.place(differing.code),) if differing.code else ()
        yield Item(
            title, places, (*(Words(text) for text in differing.texts), Words(f"compile {ids(differing.compiles)}"))
        )
    if guards.dynamic:
        rows = tuple((entry.source, entry.sizes, str(entry.compile)) for entry in guards.dynamic[:_MOST_GUARDS])
        yield Item("Tensors with dynamic sizes (None: any size)", blocks=(Table(("source", "sizes", "compile"), rows),))
    if guards.shapes:
        yield Item("Guards on sizes", blocks=(_guard_table(context, guards.shapes),))
    if any(entry.latency_us for entry in guards.costly):
        costs = tuple((str(entry.compile), f"{entry.latency_us:.0f} µs", str(entry.guards)) for entry in guards.costly)
        yield Item("The slowest to check", blocks=(Table(("compile", "time", "guards"), costs),))
    if guards.groups:
        yield Item("All other guards, the most frequent first", blocks=(_guard_table(context, guards.groups),))
    if guards.left_out:
        yield Item(f"… and {counted(guards.left_out, 'check')} more, which are not listed one by one")


def _guard_table(context: Context, groups: Sequence[GuardGroup]) -> Table:
    rows = [
        (str(group.count), group.kind, _check(group), context.place(group.where)) for group in groups[:_MOST_GUARDS]
    ]
    if len(groups) > _MOST_GUARDS:
        rows.append((f"… {len(groups) - _MOST_GUARDS} more", "", "", ""))
    return Table(("compiles", "kind", "check", "line"), tuple(rows))


def _check(group: GuardGroup) -> str:
    """The check; only its source if the kind says the rest."""
    text = group.text if group.kind in _SAYING or not group.source else group.source
    return text if len(text) <= _CHECK else f"{text[: _CHECK - 1]}…"
