"""The section on similar graphs, which one graph with dynamic sizes could replace."""

from __future__ import annotations

from repro_kit.explain.context import Context, compiled_name, counted, seconds
from repro_kit.explain.view import Item, Section, Table
from repro_kit.trace.insights.similar import SimilarGraphs


def similar_section(context: Context) -> Section:
    """One item for each group."""
    groups = context.insights.similar
    if not groups:
        return Section("similar", "Similar graphs", "none")
    spare = sum(group.count - 1 for group in groups)
    summary = f"{counted(spare, 'compile')} repeat a graph with other sizes"
    return Section("similar", "Similar graphs", summary, tuple(_similar_graphs(context, group) for group in groups))


def _similar_graphs(context: Context, group: SimilarGraphs) -> Item:
    names = dict.fromkeys(compiled_name(member.code.function) for member in group.members if member.code)
    took = f", {seconds(group.seconds)} for all but the first" if group.seconds else ""
    title = f"{', '.join(names) or 'graphs'}: {group.count} compiles of the same {counted(group.ops, 'op')}{took}"
    rows = tuple((str(member.compile), *member.sizes) for member in group.members)
    places = dict.fromkeys(context.place(member.code) for member in group.members if member.code)
    return Item(title, tuple(places)[:5], (Table(("compile", *group.inputs), rows),))
