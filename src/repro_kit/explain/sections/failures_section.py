"""The section on failed compiles: type, reason, the user's line."""

from __future__ import annotations

from repro_kit.explain.context import Context, counted, ids
from repro_kit.explain.view import Block, Item, Section, Words
from repro_kit.trace.insights.failed_compiles import FailedCompile

_REASON = 1500  # characters


def failures_section(context: Context) -> Section:
    """One item for each failure."""
    failures = context.insights.failures
    if not failures:
        return Section("failures", "Failures", "none")
    summary = f"{counted(sum(failure.count for failure in failures), 'compile')} failed"
    return Section("failures", "Failures", summary, tuple(_failure(context, failure) for failure in failures))


def _failure(context: Context, failure: FailedCompile) -> Item:
    times = f" ×{failure.count}" if failure.count > 1 else ""
    first, _, rest = failure.reason.strip().partition("\n")
    blocks: list[Block] = [Words(line) for line in rest[:_REASON].splitlines() if line.strip()]
    if failure.backward:
        blocks.append(Words("in the backward"))
    if failure.soft:
        blocks.append(Words("a graph break, which is an error because of fullgraph=True"))
    blocks.append(Words(f"compile {ids(failure.compiles, failure.count)}"))
    return Item(
        f"{failure.type}: {first}{times}", (context.place_in(failure.where),) if failure.where else (), tuple(blocks)
    )
