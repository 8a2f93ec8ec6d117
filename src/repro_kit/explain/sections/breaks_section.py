"""Graph breaks: where, why, what torch suggests, and what each costs."""

from __future__ import annotations

import re

from repro_kit.explain.context import Context, counted, ids
from repro_kit.explain.view import Block, Item, Section, Words
from repro_kit.trace.break_text import GraphBreak

#: Hints that name no step a user can take.
_NAMED = re.compile(r"^builtin (?P<builtin>\w+)\b|qualname: (?P<function>[\w.<>]+)")
_IDLE = (
    "Please report an issue",
    "File an issue",
    "This graph break is fundamental",
    "This graph break may be difficult",
)


def section(context: Context) -> Section:
    """One item a place and kind."""
    breaks = context.insights.breaks
    if not breaks:
        return Section("breaks", "Graph breaks", "none")
    total, extra = sum(one.count for one in breaks), sum(one.extra_graphs for one in breaks)
    places = {context.place(one.where) or title(one) for one in breaks}
    summary = f"{counted(total, 'graph break')} at {counted(len(places), 'place')}"
    summary += f", and {counted(extra, 'more graph')} for them" if extra else ""
    return Section("breaks", "Graph breaks", summary, tuple(_item(context, one) for one in breaks))


def cost(context: Context, one: GraphBreak) -> str:
    """What a graph break costs, in words; empty where the log does not tell."""
    if context.insights.text:
        return ""
    if one.skipped:
        return "the whole function runs in eager"
    return counted(one.extra_graphs, "more graph") if one.extra_graphs else "no further graph"


def title(one: GraphBreak) -> str:
    """Torch's name for it, and what it is about where that does not say."""
    found = _NAMED.search(one.context)
    name = found and (found["builtin"] or found["function"])
    return f"{one.kind}: `{name}`" if name and f"`{name}`" not in one.kind else one.kind


def advice_of(one: GraphBreak) -> tuple[str, ...]:
    """Torch's hints that a user can act on."""
    return tuple(hint for hint in one.hints if not hint.startswith(_IDLE))


def _item(context: Context, one: GraphBreak) -> Item:
    times = f" ×{one.count}" if one.count > 1 else ""
    costs = cost(context, one)
    told = [f"Costs: {costs}" if costs else "", f"Compile {ids(one.compiles)}" if one.compiles else ""]
    blocks: list[Block] = [Words("; ".join(filter(None, told)))] if any(told) else []
    if one.explanation:
        blocks.append(Words(one.explanation))
    blocks += [Words(f"PyTorch: {hint}") for hint in advice_of(one)]
    if one.link:
        blocks.append(Words(f"{one.code}: {one.link}"))
    return Item(f"{title(one)}{times}", (context.place_in(one.where),) if one.where else (), tuple(blocks))
