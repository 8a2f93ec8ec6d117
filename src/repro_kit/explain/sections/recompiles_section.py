"""The section on recompiles: which function, which guard, the values over time, the limit."""

from __future__ import annotations

from repro_kit.explain.context import Context, compiled_name, counted, ids, seconds
from repro_kit.explain.view import Block, Item, Section, Table, Words
from repro_kit.trace.guard_text import GuardText
from repro_kit.trace.insights.recompiles import Reason, Recompiled

_REASONS = 12


def recompiles_section(context: Context) -> Section:
    """One item for each function that was compiled again."""
    functions = context.insights.recompiles
    if not functions:
        return Section("recompiles", "Recompiles", "none")
    times_compiled = sum(recompiled.seconds for recompiled in functions)
    total = sum(recompiled.count for recompiled in functions)
    summary = f"{counted(total, 'recompile')} of {counted(len(functions), 'function')}"
    summary += f", {seconds(times_compiled)}" if times_compiled else ""
    return Section(
        "recompiles", "Recompiles", summary, tuple(_recompiled(context, recompiled) for recompiled in functions)
    )


def times_compiled(recompiled: Recompiled) -> int:
    """How often the function was compiled."""
    return recompiled.count + 1


def wanted(guard: GuardText) -> str:
    """The guard that failed; in words if its text is a name of Dynamo's."""
    if "___stack" in guard.text:
        return f"a value that a graph break hands over ({guard.text})"
    return guard.text


def _recompiled(context: Context, recompiled: Recompiled) -> Item:
    took = f", {seconds(recompiled.seconds)}" if recompiled.seconds else ""
    title = f"{compiled_name(recompiled.name) or 'a function'}: compiled {times_compiled(recompiled)} times{took}"
    blocks: list[Block] = []
    if recompiled.hit:
        blocks.append(
            Words(f"It hit the limit of {recompiled.limit} compiles, and runs in eager if none of them fits.")
        )
    elif recompiled.near:
        blocks.append(Words(f"It is near the limit of {recompiled.limit} compiles."))
    blocks += [_recompile_reason(context, reason) for reason in recompiled.reasons[:_REASONS]]
    if len(recompiled.reasons) > _REASONS:
        blocks.append(Words(f"… and {len(recompiled.reasons) - _REASONS} more guards"))
    if recompiled.values.rows:
        rows = tuple((str(row.compile), *row.values) for row in recompiled.values.rows)
        blocks.append(Table(("compile", *recompiled.values.sources), rows))
    if recompiled.values.left_out:
        blocks.append(Words(f"… and {counted(recompiled.values.left_out, 'more compile')}"))
    return Item(title, (context.place(recompiled.code),) if recompiled.code else (), tuple(blocks))


def _recompile_reason(context: Context, reason: Reason) -> Block:
    guard = reason.guard
    about = "size" if reason.size_related else guard.kind
    text = f"{about}: {wanted(guard)}" + (f" ×{reason.count}" if reason.count > 1 else "")
    text += f" ({guard.note})" if guard.note else ""
    if guard.where:
        text += f"; the guard comes from {context.place_in(guard.where)}"
    if reason.compiles:
        text += f" → compile {ids(reason.compiles)}"
    return Words(text)
