"""The sections on compiles: all of them, those that failed, graph breaks, recompiles, and what was generated."""

from __future__ import annotations

import re
from collections.abc import Iterator

from repro_kit.explain.context import Context, compiled_name, counted, ids, listed, seconds
from repro_kit.explain.report import Block, Code, Item, Section, Table, Words
from repro_kit.trace.dynamo_text import GraphBreak, GuardText
from repro_kit.trace.insights.breaks import ExportKind, ExportProblem, FailedCompile
from repro_kit.trace.insights.overview import CompileInfo, Overview, OverviewNode, baseline
from repro_kit.trace.insights.provenance import GeneratedCode, Kernel
from repro_kit.trace.insights.recompiles import Reason, Recompiled
from repro_kit.trace.places import CompileRef, is_torch
from repro_kit.trace.text_log import TextLines

_MOST_COMPILES = 200


def overview_section(context: Context) -> Section:
    """The compiles, the tree of the compiled code, times, caches, settings."""
    overview = context.insights.overview
    if not overview.compiles and not context.insights.lines.total:
        return Section("overview", "Overview", "nothing was compiled")
    totals = context.insights.totals
    states = ", ".join(f"{number} {state}" for state, number in totals.states.items())
    items = [
        Item("Compiles", blocks=(_compiles(context, overview),)),
        Item("From where", blocks=(_tree(context, overview),)),
    ]
    if overview.phases:
        rows = tuple((phase, seconds(time)) for phase, time in overview.phases.items())
        total = f"Time: {seconds(overview.seconds)}" if overview.seconds else "Time by phase"
        items.append(Item(total, blocks=(Table(("phase", "time"), rows),)))
    items += [*_overview_facts(context, overview), *_text_facts(context.insights.lines)]
    summary = counted(totals.compiles, "compile") + (f": {states}" if states else "")
    return Section("overview", "Overview", summary, tuple(items))


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
    restarts = tuple((str(one.ref), reason) for one in overview.compiles for reason in one.restarts)
    if restarts:
        yield Item("Why an analysis began again", blocks=(Table(("id", "reason"), restarts[:_MOST_COMPILES]),))
    if overview.anew:
        yield Item(
            f"Compile ids began anew {counted(overview.anew, 'time')}",
            blocks=(Words("after torch._dynamo.reset(), in a forked process, or where a second log begins"),),
        )
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


def _text_facts(lines: TextLines) -> Iterator[Item]:
    """How much of a text of TORCH_LOGS was read."""
    if lines.unread:
        yield Item(
            f"Not understood: {lines.unread} of {counted(lines.total, 'line')} of torch", (), (Code(lines.first),)
        )
    if lines.other:
        rows = tuple((kind, str(number)) for kind, number in lines.other.items())
        yield Item("Lines of torch that explain does not use", (), (Table(("kind", "lines"), rows),))


_REASON = 1500  # characters


def failures_section(context: Context) -> Section:
    """One item for each failure."""
    failures, exports = context.insights.failures, context.insights.exports
    if not failures and not exports:
        return Section("failures", "Failures", "none")
    summaries = [f"{counted(context.insights.totals.failures, 'compile')} failed"] if failures else []
    summaries += [f"torch.export worked around {counted(len(exports), 'problem')}"] if exports else []
    items = (*(_failure(context, failure) for failure in failures), *(_exported(context, one) for one in exports))
    return Section("failures", "Failures", "; ".join(summaries), items)


def _exported(context: Context, problem: ExportProblem) -> Item:
    times = f" ×{problem.count}" if problem.count > 1 else ""
    words = {
        ExportKind.DATA: f"torch.export cannot tell whether it holds; it assumed {problem.result}, checked at run time",
        ExportKind.GUARD: "torch.export had to decide it, which may contradict what you said of the sizes",
        ExportKind.MISSING: "the operator has no fake kernel: register one with torch.library.register_fake",
        ExportKind.MISMATCHED: f"the operator's fake kernel and its real one differ: {problem.result}",
    }[problem.kind]
    places = (context.place_in(problem.where),) if problem.where else ()
    return Item(f"Export, {problem.kind}: {problem.what}{times}", places, (Words(words),))


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


#: Beginnings of hints that name no step for the user.
_NAMED = re.compile(r"^builtin (?P<builtin>\w+)\b|qualname: (?P<function>[\w.<>]+)")
_IDLE = (
    "Please report an issue",
    "If it is a Python builtin, please file an issue",
    "File an issue",
    "This graph break is fundamental",
    "This graph break may be difficult",
)


def breaks_section(context: Context) -> Section:
    """One item for each place and kind."""
    breaks = context.insights.breaks
    if not breaks:
        return Section("breaks", "Graph breaks", "none")
    totals = context.insights.totals
    summary = f"{counted(totals.graph_breaks, 'graph break')} at {counted(totals.places_of_breaks, 'place')}"
    summary += f", which cause {counted(totals.more_graphs, 'more graph')}" if totals.more_graphs else ""
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
    if graph_break.caller:
        opened = ", where another graph break opened it" if graph_break.opened else ""
        blocks.append(Words(f"Called from {context.place_in(graph_break.caller)}{opened}"))
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


_REASONS = 12


def recompiles_section(context: Context) -> Section:
    """One item for each function that was compiled again."""
    functions = context.insights.recompiles
    if not functions:
        return Section("recompiles", "Recompiles", "none")
    times_compiled = sum(recompiled.seconds for recompiled in functions)
    totals = context.insights.totals
    summary = f"{counted(totals.recompiles, 'recompile')} of {counted(totals.recompiled_functions, 'function')}"
    summary += f", {counted(totals.limit_hits, 'compile')} refused by the limit" if totals.limit_hits else ""
    summary += f", {seconds(times_compiled)}" if times_compiled else ""
    return Section(
        "recompiles", "Recompiles", summary, tuple(_recompiled(context, recompiled) for recompiled in functions)
    )


def times_compiled(recompiled: Recompiled) -> int:
    """How often the function was compiled."""
    return recompiled.count + 1


def after_the_limit(context: Context, recompiled: Recompiled) -> str:
    """What a call does after the limit, if no graph fits; a text of TORCH_LOGS does not tell whether it fails."""
    if recompiled.raised:
        return "torch raises FailOnRecompileLimitHit"
    return "it runs in eager if no graph fits" + (", or fails under fullgraph=True" if context.insights.text else "")


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
        times = f" {recompiled.hits} times" if recompiled.hits > 1 else ""
        then = after_the_limit(context, recompiled)
        blocks.append(Words(f"It hit the limit of {recompiled.limit} compiles{times}: {then}."))
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
    text += " (of older entries only, which differ more)" if reason.remote else ""
    if guard.where:
        text += f"; the guard comes from {context.place_in(guard.where)}"
    if reason.compiles:
        text += f" → compile {ids(reason.compiles)}"
    return Words(text)


_MOST_ROWS = 60


def kernels_section(context: Context) -> Section:
    """One item for each graph that Inductor compiled: its kernels, and the user's lines that each was made of."""
    provenance = context.insights.provenance
    if not provenance.graphs:
        return Section("kernels", "Kernels", "no generated code in this trace")
    kernels = [kernel for graph in provenance.graphs for kernel in graph.kernels]
    unknown = sum(not kernel.known for kernel in kernels)
    graphs = counted(len(provenance.graphs) + provenance.left_out, "graph")
    summary = f"{counted(len(kernels), 'kernel')} of {graphs}"
    items = [_generated(context, graph) for graph in provenance.graphs]
    if unknown:
        words = "set INDUCTOR_PROVENANCE=1 for the run (older torch: TORCH_COMPILE_DEBUG=1) to have it kept"
        items.insert(0, Item(f"Torch kept no origin of {counted(unknown, 'kernel')}", (), (Words(words),)))
        summary += f", {unknown} of unknown origin"
    if provenance.left_out:
        items.append(Item(f"… and {counted(provenance.left_out, 'more graph')}"))
    return Section("kernels", "Kernels", summary, tuple(items))


def _generated(context: Context, graph: GeneratedCode) -> Item:
    name = f"{compiled_name(graph.code.function)}: " if graph.code else ""
    title = f"{name}{counted(len(graph.kernels), 'kernel')}" + (" of a later graph (a backward)" if graph.later else "")
    whence = "by torch's own mappings and stacks" if graph.mapped else "by the comments in the generated code"
    compiled = (
        f"compile {ids(graph.compiles, graph.count)}" if graph.compiles else "ahead of time, without a compile id"
    )
    rows = [_kernel_row(context, kernel) for kernel in graph.kernels[:_MOST_ROWS]]
    if len(graph.kernels) > _MOST_ROWS:
        rows.append((f"… {len(graph.kernels) - _MOST_ROWS} more", "", "", ""))
    table = Table(("kernel", "lines", "nodes of Dynamo's graph", "nodes that Inductor lowered"), tuple(rows))
    return Item(title, (context.place(graph.code),) if graph.code else (), (Words(f"{compiled}, {whence}"), table))


def _kernel_row(context: Context, kernel: Kernel) -> tuple[str, ...]:
    lines = listed([context.place_in(frame) for frame in kernel.lines], 4) if kernel.known else "not kept"
    return kernel.name, lines, listed(kernel.pre_grad), listed(kernel.post_grad)
