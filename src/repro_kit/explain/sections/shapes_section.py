"""The section on dynamic shapes: the symbols, their origin, and values that a setting keeps constant."""

from __future__ import annotations

from repro_kit.explain.context import Context, compiled_name, counted, ids, listed
from repro_kit.explain.view import Item, Section, Table, Words
from repro_kit.trace.insights.dynamic_shapes import Symbol

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
