"""Recompiles: which function, which guard, the values over time, the limit."""

from __future__ import annotations

from repro_kit.explain.context import Context, compiled_name, counted, ids, seconds
from repro_kit.explain.view import Block, Item, Section, Table, Words
from repro_kit.trace.guard_text import GuardText
from repro_kit.trace.insights.recompiles import Reason, Recompiled

_REASONS = 12


def section(context: Context) -> Section:
    """One item a function that was compiled again."""
    found = context.insights.recompiles
    if not found:
        return Section("recompiles", "Recompiles", "none")
    times = sum(one.seconds for one in found)
    summary = f"{counted(sum(one.count for one in found), 'recompile')} of {counted(len(found), 'function')}"
    summary += f", {seconds(times)}" if times else ""
    return Section("recompiles", "Recompiles", summary, tuple(_item(context, one) for one in found))


def times(one: Recompiled) -> int:
    """How often it was compiled."""
    return one.count + 1


def wanted(guard: GuardText) -> str:
    """The guard that failed, in words where its name says nothing."""
    if "___stack" in guard.text:
        return f"a value that a graph break hands over ({guard.text})"
    return guard.text


def _item(context: Context, one: Recompiled) -> Item:
    took = f", {seconds(one.seconds)}" if one.seconds else ""
    title = f"{compiled_name(one.name) or 'a function'}: compiled {times(one)} times{took}"
    blocks: list[Block] = []
    if one.hit:
        blocks.append(Words(f"It hit the limit of {one.limit} compiles, and runs in eager where none of them fits."))
    elif one.near:
        blocks.append(Words(f"It is near the limit of {one.limit} compiles."))
    blocks += [_reason(context, reason) for reason in one.reasons[:_REASONS]]
    if len(one.reasons) > _REASONS:
        blocks.append(Words(f"… and {len(one.reasons) - _REASONS} more guards"))
    if one.values.rows:
        rows = tuple((str(row.compile), *row.values) for row in one.values.rows)
        blocks.append(Table(("compile", *one.values.sources), rows))
    if one.values.left_out:
        blocks.append(Words(f"… and {counted(one.values.left_out, 'more compile')}"))
    return Item(title, (context.place(one.code),) if one.code else (), tuple(blocks))


def _reason(context: Context, reason: Reason) -> Block:
    guard = reason.guard
    about = "size" if reason.size_related else guard.kind
    text = f"{about}: {wanted(guard)}" + (f" ×{reason.count}" if reason.count > 1 else "")
    text += f" ({guard.note})" if guard.note else ""
    if guard.where:
        text += f"; guarded on at {context.place_in(guard.where)}"
    if reason.compiles:
        text += f" → compile {ids(reason.compiles)}"
    return Words(text)
