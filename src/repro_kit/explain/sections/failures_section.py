"""Failed compiles: type, reason, the user's line."""

from __future__ import annotations

from repro_kit.explain.context import Context, counted, ids
from repro_kit.explain.view import Block, Item, Section, Words
from repro_kit.trace.insights.failed_compiles import FailedCompile

_REASON = 1500  # characters


def section(context: Context) -> Section:
    """One item a failure."""
    found = context.insights.failures
    if not found:
        return Section("failures", "Failures", "none")
    summary = f"{counted(sum(one.count for one in found), 'compile')} failed"
    return Section("failures", "Failures", summary, tuple(_item(context, one) for one in found))


def _item(context: Context, one: FailedCompile) -> Item:
    times = f" ×{one.count}" if one.count > 1 else ""
    first, _, rest = one.reason.strip().partition("\n")
    blocks: list[Block] = [Words(line) for line in rest[:_REASON].splitlines() if line.strip()]
    if one.backward:
        blocks.append(Words("in the backward"))
    if one.soft:
        blocks.append(Words("a graph break, which fullgraph=True makes an error"))
    blocks.append(Words(f"compile {ids(one.compiles, one.count)}"))
    return Item(f"{one.type}: {first}{times}", (context.place_in(one.where),) if one.where else (), tuple(blocks))
