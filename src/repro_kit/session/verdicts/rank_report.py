"""Say where the ranks of a distributed run part: in what they compile, and in the collectives that they call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from repro_kit.model.rank_history import named_ranks
from repro_kit.runner.read_findings import Findings
from repro_kit.session.verdicts.deadlock_rule import latest
from repro_kit.session.verdicts.observed_failures import failed_first
from repro_kit.session.verdicts.rank_lines import cause_sentences, late_ranks, rank_lines
from repro_kit.trace.insights.gather import Insights, gather
from repro_kit.trace.insights.ranks import Divergence
from repro_kit.trace.places import CompileRef

_SHOWN = ("compiles", "graph", "collectives")


@dataclass(frozen=True)
class RankReport:
    """The ranks of a run: a line for each, and sentences that say where they part. Both are empty for one rank."""

    lines: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()


def rank_report(trace: Path, findings: Findings) -> RankReport:
    """Compare the ranks of a run. `trace`: the directory of the run's logs."""
    ranks = {process.rank for process in findings.processes if process.rank is not None}
    if len(ranks) < 2 and not latest(findings):
        return RankReport()
    insights = gather(trace)
    sentences = [*_divergences(insights), *cause_sentences(findings), *late_ranks(latest(findings))]
    return RankReport(rank_lines(findings, insights.ranks.compiles), tuple(sentences))


def suspects(trace: Path, findings: Findings) -> tuple[int, ...]:
    """The ranks that may show the failure alone, the likeliest first: those that failed, then those that compiled most.

    `trace`: the directory of the run's logs. Empty for one rank.
    """
    ranks = {state.pid: state.rank for state in latest(findings)}
    failed = [ranks[pid] for pid in failed_first(findings) if pid in ranks]
    compiles = gather(trace).ranks.compiles if ranks else {}
    return tuple(dict.fromkeys([*failed, *sorted(ranks.values(), key=lambda rank: -compiles.get(rank, 0))]))


def _divergences(insights: Insights) -> Iterator[str]:
    """The first compile in which the ranks differ, with the user's code, and the guards that made only some compile."""
    apart = next((divergence for divergence in insights.ranks.divergences if divergence.what == "code"), None)
    if apart is not None:
        functions = ", ".join(f"rank {min(ranks)} {function}" for function, ranks in apart.groups)
        yield f"The ranks compile different functions, first in {apart.compile_id}: {functions}."
    divergences = [divergence for divergence in insights.ranks.divergences if divergence.what in _SHOWN]
    if divergences:
        more = f", and {len(divergences) - 1} more differ" if len(divergences) > 1 else ""
        yield (
            f"The ranks differ: {_in_words(divergences[0])}{_place(insights, divergences[0])}{more}. "
            "A rank that runs other collectives than the others"
            " makes them wait. `repro-kit explain CASE --section ranks` lists the differences."
        )
        yield from _parting(insights, divergences[0])
        yield from _guards(insights, divergences)


def _parting(insights: Insights, first: Divergence) -> Iterator[str]:
    """Where the graphs of `first` part, as far as the trace shows it."""
    parting = insights.parting
    words = parting.sentences() if parting is not None and parting.compile_id == first.compile_id else ""
    if words:
        yield words


def _place(insights: Insights, divergence: Divergence) -> str:
    """The user's function that the compile is of."""
    for function in insights.recompiles:
        if function.code is not None and any(ref.compile_id == divergence.compile_id for ref in function.compiles):
            return f" ({function.name}, {function.code.file.rpartition('/')[2]}:{function.code.line})"
    return ""


def _guards(insights: Insights, divergences: list[Divergence]) -> Iterator[str]:
    only = {
        (divergence.compile_id, rank)
        for divergence in divergences
        if divergence.what == "compiles"
        for text, ranks in divergence.groups
        if text == "compiled"
        for rank in ranks
    }
    for function in insights.recompiles:
        for reason in function.reasons:
            refs: list[CompileRef] = [ref for ref in reason.compiles if (ref.compile_id, ref.rank) in only]
            if refs:
                ranks = ", ".join(sorted({str(ref.rank) for ref in refs}))
                yield f"Rank {ranks} compiled {function.name} again because of the guard {reason.guard.text}."
                return


def _in_words(divergence: Divergence) -> str:
    ranks = {text: named_ranks(numbers) for text, numbers in divergence.groups}
    if divergence.what == "compiles":
        return f"only {ranks['compiled']} compiled {divergence.compile_id}"
    if divergence.what == "collectives":
        orders = " and ".join(f"{text} on {numbers}" for text, numbers in ranks.items())
        return f"the code of {divergence.compile_id} calls {orders}"
    groups = sorted(numbers for _, numbers in divergence.groups)
    if len(groups) > 2 and all(len(numbers) == 1 for numbers in groups):
        *others, last = (str(number) for (number,) in groups)
        return f"ranks {', '.join(others)} and {last} all have different graphs in {divergence.compile_id}"
    words = " and ".join(map(named_ranks, groups))
    return f"{words} have different graphs in {divergence.compile_id}"
