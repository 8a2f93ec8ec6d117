"""The section with all compiles: from where, how each ended, and how long it took."""

from __future__ import annotations

from collections.abc import Iterator

from repro_kit.explain.context import Context, compiled_name, counted, seconds
from repro_kit.explain.view import Block, Code, Item, Section, Table, Words
from repro_kit.trace.insights.overview import CompileInfo, Overview, OverviewNode
from repro_kit.trace.places import CompileRef, is_torch
from repro_kit.trace.torch_defaults import baseline

_MOST_COMPILES = 200


def overview_section(context: Context) -> Section:
    """The compiles, the tree of the compiled code, times, caches, settings."""
    overview = context.insights.overview
    if not overview.compiles:
        return Section("overview", "Overview", "nothing was compiled")
    states = ", ".join(f"{number} {state}" for state, number in overview.states().items())
    items = [
        Item("Compiles", blocks=(_compiles(context, overview),)),
        Item("From where", blocks=(_tree(context, overview),)),
    ]
    if overview.phases:
        rows = tuple((phase, seconds(time)) for phase, time in overview.phases.items())
        items.append(Item(f"Time: {seconds(overview.seconds)}", blocks=(Table(("phase", "time"), rows),)))
    items += _overview_facts(context, overview)
    return Section("overview", "Overview", f"{counted(len(overview.compiles), 'compile')}: {states}", tuple(items))


def _compiles(context: Context, overview: Overview) -> Block:
    columns = ("id", "function") if context.insights.text else ("id", "function", "ended", "ops", "guards", "time")
    rows = [_compile_row(context, compile_)[: len(columns)] for compile_ in overview.compiles[:_MOST_COMPILES]]
    left = len(overview.compiles) - len(rows)
    if left:
        rows.append((f"… {left} more", *("" for _ in columns[1:])))
    return Table(columns, tuple(rows))


def _compile_row(context: Context, compile_: CompileInfo) -> tuple[str, ...]:
    function = f"{compiled_name(compile_.code.function)} {context.place(compile_.code)}" if compile_.code else ""
    state = f"{compile_.state}, {compile_.attempts} attempts" if compile_.attempts > 1 else str(compile_.state)
    return (
        str(compile_.ref),
        function,
        state,
        str(compile_.ops),
        str(compile_.guards),
        seconds(compile_.seconds + compile_.backward_seconds),
    )


def _tree(context: Context, overview: Overview) -> Block:
    """Stacks with a common beginning share its lines; frames of torch are left out."""
    states = {compile_.ref: str(compile_.state) for compile_ in overview.compiles}
    lines = [*_branches(context, overview.tree, states)]
    left = len(lines) - _MOST_COMPILES
    return Code("\n".join([*lines[:_MOST_COMPILES], *([f"… {left} more"] if left > 0 else [])]))


def _branches(context: Context, nodes: tuple[OverviewNode, ...], states: dict[CompileRef, str]) -> Iterator[str]:
    shown: list[int] = []  # depths of the user's frames above
    for node in nodes:
        while shown and shown[-1] >= node.depth:
            shown.pop()
        hidden = is_torch(node.frame.file)
        if hidden and not node.compiles:
            continue
        compiles = ", ".join(f"[{ref} {states.get(ref, 'open')}]" for ref in node.compiles)
        name = compiled_name(node.frame.function)
        yield f"{'  ' * len(shown)}{name} {context.place(node.frame)} {compiles}".rstrip()
        shown.append(node.depth)


def _overview_facts(context: Context, overview: Overview) -> Iterator[Item]:
    if overview.caches:
        rows = tuple((cach.name, str(cach.hits), str(cach.misses), str(cach.bypasses)) for cach in overview.caches)
        yield Item("Caches", blocks=(Table(("cache", "hits", "misses", "bypassed"), rows),))
    if overview.without_cuda_graphs:
        named = tuple(
            (str(skip.ref), skip.reason, context.place(skip.where) if skip.where else "")
            for skip in overview.without_cuda_graphs[:_MOST_COMPILES]
        )
        yield Item("Not run by CUDA graphs", blocks=(Table(("id", "reason", "line"), named),))
    if overview.guards:
        latency = f", {overview.guard_latency_us:.0f} µs to check once" if overview.guard_latency_us else ""
        yield Item(f"Guards: {overview.guards}{latency}")
    if overview.settings:
        settings = tuple((setting.name, setting.value, setting.default) for setting in overview.settings)
        blocks: list[Block] = [Table(("setting", "value", "default"), settings)]
        torch = overview.versions.get("torch", "").partition("+")[0]
        if torch and torch != baseline():
            blocks.insert(0, Words(f"the defaults are those of torch {baseline()}; those of {torch} may differ"))
        yield Item("Settings that are not at their default", blocks=tuple(blocks))
    if overview.versions:
        yield Item("Versions: " + ", ".join(f"{name} {version}" for name, version in overview.versions.items()))
