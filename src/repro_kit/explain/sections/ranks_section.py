"""The section on ranks: where ranks compiled different code."""

from __future__ import annotations

from repro_kit.explain.context import Context, counted
from repro_kit.explain.view import Item, Section, Table, Words
from repro_kit.trace.insights.rank_parting import Parting
from repro_kit.trace.insights.ranks import Divergence

_WHAT = {
    "code": "the ranks compile different functions",
    "compiles": "not all ranks compiled it",
    "graph": "the graphs differ",
    "cache": "the caches answered differently",
}


def section(context: Context) -> Section:
    """One item for each divergence."""
    ranks, parting = context.insights.ranks, context.insights.parting
    if len(ranks.ranks) < 2:
        return Section("ranks", "Ranks", "one process" if not ranks.ranks else "one rank")
    title = f"{len(ranks.ranks)} ranks: " + ", ".join(
        f"rank {rank} {number}" for rank, number in ranks.compiles.items()
    )
    items = [Item(f"Compiles of {title}")]
    items += [_item(divergence, parting) for divergence in ranks.divergences]
    if ranks.left_out:
        items.append(Item(f"… and {ranks.left_out} more"))
    summary = counted(len(ranks.divergences) + ranks.left_out, "divergence") if ranks.divergences else "they agree"
    return Section("ranks", "Ranks", summary, tuple(items))


def _item(divergence: Divergence, parting: Parting | None) -> Item:
    groups = Table(("what", "ranks"), tuple((text, ", ".join(map(str, at))) for text, at in divergence.groups))
    title = f"{divergence.compile_id}: {_WHAT.get(divergence.what, divergence.what)}"
    words = ""
    if parting is not None and (divergence.what, divergence.compile_id) == ("graph", parting.compile_id):
        words = parting.sentences()
    return Item(title, blocks=(groups, Words(words)) if words else (groups,))
