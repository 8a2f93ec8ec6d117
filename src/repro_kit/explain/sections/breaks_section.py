"""The section on graph breaks: where, why, what torch suggests, and what each break costs."""

from __future__ import annotations

import re

from repro_kit.explain.context import Context, counted, ids
from repro_kit.explain.view import Block, Item, Section, Words
from repro_kit.trace.break_text import GraphBreak

#: Beginnings of hints that name no step for the user.
_NAMED = re.compile(r"^builtin (?P<builtin>\w+)\b|qualname: (?P<function>[\w.<>]+)")
_IDLE = (
    "Please report an issue",
    "File an issue",
    "This graph break is fundamental",
    "This graph break may be difficult",
)


def breaks_section(context: Context) -> Section:
    """One item for each place and kind."""
    breaks = context.insights.breaks
    if not breaks:
        return Section("breaks", "Graph breaks", "none")
    total, extra = (
        sum(graph_break.count for graph_break in breaks),
        sum(graph_break.extra_graphs for graph_break in breaks),
    )
    places = {context.place(graph_break.where) or title_of_break(graph_break) for graph_break in breaks}
    summary = f"{counted(total, 'graph break')} at {counted(len(places), 'place')}"
    summary += f", which cause {counted(extra, 'more graph')}" if extra else ""
    return Section("breaks", "Graph breaks", summary, tuple(_break(context, graph_break) for graph_break in breaks))


def cost_of_break(context: Context, graph_break: GraphBreak) -> str:
    """What a graph break costs, in words; empty if the log does not say."""
    if context.insights.text:
        return ""
    if graph_break.skipped:
        return "the whole function runs in eager"
    return counted(graph_break.extra_graphs, "more graph") if graph_break.extra_graphs else "no further graph"


def title_of_break(graph_break: GraphBreak) -> str:
    """Torch's name for the break, with the function that caused it if the name lacks it."""
    named = _NAMED.search(graph_break.context)
    name = named and (named["builtin"] or named["function"])
    return f"{graph_break.kind}: `{name}`" if name and f"`{name}`" not in graph_break.kind else graph_break.kind


def advice_of(graph_break: GraphBreak) -> tuple[str, ...]:
    """Torch's hints that a user can follow."""
    return tuple(hint for hint in graph_break.hints if not hint.startswith(_IDLE))


def _break(context: Context, graph_break: GraphBreak) -> Item:
    times = f" ×{graph_break.count}" if graph_break.count > 1 else ""
    costs = cost_of_break(context, graph_break)
    facts = [f"Costs: {costs}" if costs else "", f"Compile {ids(graph_break.compiles)}" if graph_break.compiles else ""]
    blocks: list[Block] = [Words("; ".join(filter(None, facts)))] if any(facts) else []
    if graph_break.explanation:
        blocks.append(Words(graph_break.explanation))
    blocks += [Words(f"PyTorch: {hint}") for hint in advice_of(graph_break)]
    if graph_break.link:
        blocks.append(Words(f"{graph_break.code}: {graph_break.link}"))
    return Item(
        f"{title_of_break(graph_break)}{times}",
        (context.place_in(graph_break.where),) if graph_break.where else (),
        tuple(blocks),
    )
