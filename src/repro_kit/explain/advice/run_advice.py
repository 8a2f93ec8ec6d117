"""Advice on failures, ranks, and how the model is wrapped."""

from __future__ import annotations

from collections.abc import Iterator

from repro_kit.explain.context import Context, counted, headline
from repro_kit.explain.suggestion import Aim, AppliedChange, Suggestion
from repro_kit.trace.insights.rank_parting import GuardedValue, Parting

#: Files of torch with the forward of a wrapper.
_WRAPPERS = {"nn/parallel/distributed.py": "DDP", "fsdp/fully_sharded_data_parallel.py": "FSDP"}


def suggest_for_runs(context: Context) -> Iterator[Suggestion]:
    """Suggestions for failures first."""
    insights = context.insights
    for failure in insights.failures:
        soft = failure.soft
        yield Suggestion(
            "Leave out fullgraph=True, or fix the graph break"
            if soft
            else "Collect the failure: repro-kit collect SCRIPT",
            f"{failure.type}: {headline(failure.reason)[:200]}",
            "failures",
            Aim.FAILURES,
            AppliedChange(arguments={"fullgraph": False}) if soft else None,
            place=context.place(failure.where),
            untried="needs an edit" if soft else "another command",
            weight=40.0,
        )
    branch = _branch_on_rank(insights.parting)
    differing = [divergence for divergence in insights.ranks.divergences if divergence.what != "code"]
    if branch is not None:
        yield Suggestion(
            "Let every rank run the same code, or leave what differs out of the compiled function",
            f"{branch.source} is {' and '.join(branch.values)}; a rank that runs other collectives makes others wait",
            "ranks",
            Aim.RECOMPILES,
            place=context.place(branch.where),
            untried="needs an edit",
            weight=len(differing),
        )
    elif differing:
        yield Suggestion(
            "Let the ranks agree on what is dynamic",
            f"{counted(len(differing), 'compile')} of {len(insights.ranks.ranks)} ranks differ, "
            "and the other ranks wait while one rank compiles",
            "ranks",
            Aim.RECOMPILES,
            AppliedChange(env={"TORCH_COMPILER_COLLECTIVES": "1"}),
            weight=len(differing),
        )
    yield from _wrapped(context)


def _branch_on_rank(parting: Parting | None) -> GuardedValue | None:
    """The first value, no size of a tensor, that sends two ranks to different statements."""
    if parting is None or parting.statements == (None, None):
        return None
    return next((value for value in parting.values if not value.sized), None)


def _wrapped(context: Context) -> Iterator[Suggestion]:
    """A compiled DDP or FSDP module with graph breaks."""
    if not context.insights.breaks:
        return
    files = {compile_.code.file for compile_ in context.insights.overview.compiles if compile_.code}
    for file, name in _WRAPPERS.items():
        if any(compiled_file.endswith(file) for compiled_file in files):
            yield Suggestion(
                f"Compile the module inside {name}: {name}(torch.compile(model)), not torch.compile({name}(model))",
                f"{name}'s own forward was compiled, and the graph breaks",
                "breaks",
                Aim.GRAPH_BREAKS,
            )
