"""Similar graphs: compiles that one graph with dynamic sizes could serve."""

from __future__ import annotations

from repro_kit.explain.context import Context, compiled_name, counted, seconds
from repro_kit.explain.view import Item, Section, Table
from repro_kit.trace.insights.similar import SimilarGraphs


def section(context: Context) -> Section:
    """One item a group."""
    found = context.insights.similar
    if not found:
        return Section("similar", "Similar graphs", "none")
    spare = sum(one.count - 1 for one in found)
    summary = f"{counted(spare, 'compile')} repeat a graph with other sizes"
    return Section("similar", "Similar graphs", summary, tuple(_item(context, one) for one in found))


def _item(context: Context, one: SimilarGraphs) -> Item:
    names = dict.fromkeys(compiled_name(member.code.function) for member in one.members if member.code)
    took = f", {seconds(one.seconds)} for all but the first" if one.seconds else ""
    title = f"{', '.join(names) or 'graphs'}: {one.count} compiles of the same {counted(one.ops, 'op')}{took}"
    rows = tuple((str(member.compile), *member.sizes) for member in one.members)
    places = dict.fromkeys(context.place(member.code) for member in one.members if member.code)
    return Item(title, tuple(places)[:5], (Table(("compile", *one.inputs), rows),))
