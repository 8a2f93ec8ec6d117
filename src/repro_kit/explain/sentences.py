"""The summary: at most five sentences with the most important findings of a trace."""

from __future__ import annotations

from collections.abc import Iterator

from repro_kit.explain.context import Context, compiled_name, counted, headline, listed, seconds
from repro_kit.explain.report import Sentence
from repro_kit.explain.sections.advice_section import collective_sentences
from repro_kit.explain.sections.compiles import after_the_limit, cost_of_break, times_compiled, title_of_break, wanted
from repro_kit.explain.sections.shapes import WORDS, name_of_specialization
from repro_kit.explain.trials import Ruling, Trial
from repro_kit.trace.insights.overview import OverviewState
from repro_kit.trace.insights.recompiles import Recompiled

_MOST = 5


def sentences(context: Context, advice: tuple[Trial, ...]) -> tuple[Sentence, ...]:
    """What was compiled, failed, broke, was compiled again or became a constant; the last sentence is advice."""
    all_sentences = [
        *_compiled(context),
        *_unread(context),
        *_failed(context),
        *_exported(context),
        *_broken(context),
        *_recompiled(context),
        *_without_cuda_graphs(context),
        *_divergent(context),
    ]
    all_sentences += [*_specialized(context), *_damaged(context)]
    if all_sentences and len(all_sentences) < 3 and context.insights.overview.compiles and not context.insights.text:
        all_sentences += _clean(context)
    last = [*_advised(advice)]
    return (*all_sentences[: _MOST - len(last)], *last)


def _compiled(context: Context) -> Iterator[Sentence]:
    overview = context.insights.overview
    if not overview.compiles:
        if context.insights.events:
            text = "Dynamo compiled nothing, so there are no graph breaks and no recompiles to explain"
            yield Sentence("·", f"{text}; --list names what Inductor wrote.", "overview")
        return
    if context.insights.text:
        totals = context.insights.totals
        numbers_in_words = f"{counted(totals.compiles, 'compile')} of {counted(totals.functions, 'function')}"
        yield Sentence(
            "·", f"A text of TORCH_LOGS: {numbers_in_words}. Only TORCH_TRACE has times, graphs and inputs.", "overview"
        )
        return
    states, totals = overview.states(), context.insights.totals
    if not totals.graphs:
        ended = ", ".join(f"{states[state]} {words}" for state, words in _OTHERS.items() if state in states)
        yield Sentence("!", f"Nothing was compiled: {ended}.", "overview")
        return
    functions = counted(totals.functions, "function")
    text = f"{counted(totals.graphs, 'graph was', 'graphs were')} compiled of {functions}"
    text += f" by {len(overview.ranks)} ranks" if len(overview.ranks) > 1 else ""
    text += f" in {seconds(overview.seconds)}" if overview.seconds else ""
    others = [f"{states[state]} {words}" for state, words in _OTHERS.items() if state in states]
    text += f"; {', '.join(others)}" if others else ""
    yield Sentence("✓", f"{text}.", "overview")


def _unread(context: Context) -> Iterator[Sentence]:
    lines = context.insights.lines
    if lines.unread:
        were = "was" if lines.unread == 1 else "were"
        text = f"{lines.unread} of {counted(lines.total, 'line')} of torch {were} not understood"
        yield Sentence("!", f"{text}; the first: {lines.first}", "overview")


_OTHERS = {
    OverviewState.EAGER: "left to eager",
    OverviewState.EMPTY: "of them empty",
    OverviewState.OPEN: "not finished",
    OverviewState.FAILED: "failed",
}


def _failed(context: Context) -> Iterator[Sentence]:
    failures = context.insights.failures
    if failures:
        first = failures[0]
        total = context.insights.totals.failures
        reason = headline(first.reason)[:200].rstrip(".")
        at = f" at {context.place(first.where)}" if first.where else ""
        more = f"; {counted(len(failures) - 1, 'other failure')}" if len(failures) > 1 else ""
        yield Sentence(
            "✗",
            f"{counted(total, 'compile')} failed{at}: {first.type}: {reason}{more}.",
            "failures",
        )


def _exported(context: Context) -> Iterator[Sentence]:
    exports = context.insights.exports
    if exports:
        first = exports[0]
        at = f" at {context.place(first.where)}" if first.where else ""
        problems = counted(len(exports), "problem")
        text = f"torch.export worked around {problems}, first a {first.kind}{at}: {first.what[:150]}"
        yield Sentence("!", f"{text}.", "failures")


def _broken(context: Context) -> Iterator[Sentence]:
    breaks = context.insights.breaks
    if not breaks:
        return
    first = breaks[0]
    description = (
        f"{title_of_break(first)} ({costs})" if (costs := cost_of_break(context, first)) else title_of_break(first)
    )
    total = context.insights.totals.graph_breaks
    at = f" at {context.place(first.where)}" if first.where else ""
    at += f" (called from {context.place(first.caller)})" if first.caller else ""
    if len(breaks) == 1:
        yield Sentence("!", f"{counted(total, 'graph break')}{at}: {description}.", "breaks")
        return
    others = dict.fromkeys(
        context.place(graph_break.where)
        for graph_break in breaks[1:]
        if graph_break.where and context.place(graph_break.where) != context.place(first.where)
    )
    places = listed(others, 3)
    elsewhere = f"; others at {places}" if places else ""
    at_places = f"{total} graph breaks at {counted(context.insights.totals.places_of_breaks, 'place')}"
    yield Sentence("!", f"{at_places}, first{at}: {description}{elsewhere}.", "breaks")


def _recompiled(context: Context) -> Iterator[Sentence]:
    recompiled = context.insights.recompiles
    if not recompiled:
        return
    worst = next((function for function in recompiled if function.hit), recompiled[0])
    at = f" ({source_line})" if (source_line := context.place(worst.code)) else ""
    text = f"`{compiled_name(worst.name)}`{at} was compiled {times_compiled(worst)} times{_because(worst)}"
    if worst.hit:
        text += f", and hit the limit of {worst.limit}: {after_the_limit(context, worst)}"
    others = list(
        {
            (function.name, function.code): function
            for function in recompiled
            if function.code is None or function.code != worst.code
        }.values()
    )
    text += (
        f"; {listed((f'`{compiled_name(other.name)}` {times_compiled(other)} times' for other in others), 3)}"
        if others
        else ""
    )
    yield Sentence("✗" if worst.hit else "!", f"{text}.", "recompiles")


def _without_cuda_graphs(context: Context) -> Iterator[Sentence]:
    skips = context.insights.overview.without_cuda_graphs
    if not skips:
        return
    first, others = skips[0], {skip.reason for skip in skips} - {skips[0].reason}
    at = f" at {context.place(first.where)}" if first.where else ""
    more = f"; {counted(len(others), 'other reason')}" if others else ""
    graphs = counted(len(skips), "graph is", "graphs are")
    yield Sentence("!", f"{graphs} not run by CUDA graphs: {first.reason}{at}{more}.", "overview")


def _because(recompiled: Recompiled) -> str:
    first = recompiled.reasons[0].guard if recompiled.reasons else None
    alike = {
        one.guard.text for one in recompiled.reasons if first and not one.remote and one.guard.source == first.source
    }
    if first is not None and first.source and not any(first.source in source for source in recompiled.values.sources):
        others = f" and {counted(len(alike) - 1, 'other value')} of it" if len(alike) > 1 else ""
        return f", for {wanted(first)}{others}"
    if recompiled.values.sources:
        values = dict.fromkeys(row.values[0] for row in recompiled.values.rows if row.values and row.values[0])
        seen = f" ({listed(values, 4)})" if values else ""
        return f", as {listed(recompiled.values.sources, 2)} changed{seen}"
    return f", for {wanted(recompiled.reasons[0].guard)}" if recompiled.reasons else ""


def _specialized(context: Context) -> Iterator[Sentence]:
    specializations = context.insights.specializations
    if not specializations:
        return
    first = next(
        (
            specialization
            for specialization in specializations
            if specialization.cause == "code" and specialization.where
        ),
        specializations[0],
    )
    at = f" at {source_line}" if (source_line := context.place(first.where)) else ""
    code = (first.where.code or context.line(first.where)) if first.where else ""
    why = f"`{code}`" if code else WORDS[first.cause]
    others = f"; {counted(len(specializations) - 1, 'more specialization')}" if len(specializations) > 1 else ""
    yield Sentence("!", f"{name_of_specialization(first)} became a constant{at}: {why}{others}.", "specializations")


def _divergent(context: Context) -> Iterator[Sentence]:
    for sentence in collective_sentences(context):
        yield Sentence("!", sentence, "ranks")
    ranks = context.insights.ranks
    if ranks.divergences:
        first = ranks.divergences[0]
        differences = counted(len(ranks.divergences) + ranks.left_out, "thing")
        yield Sentence(
            "!",
            f"{len(ranks.ranks)} ranks differ in {differences}, first in {first.compile_id or 'all'} ({first.what}).",
            "ranks",
        )


def _damaged(context: Context) -> Iterator[Sentence]:
    problems = context.insights.problems
    if problems.damaged or problems.stray or problems.eventless:
        parts = [
            (problems.damaged, "damaged record"),
            (problems.stray, "line that is not a record"),
            (problems.eventless, "record without an event"),
        ]
        text = listed(
            counted(number, noun, noun.replace("line that is", "lines that are") + "s" * ("line" not in noun))
            for number, noun in parts
            if number
        )
        yield Sentence("·", f"The log is damaged, and the readable part was used: {text}.")


def _clean(context: Context) -> list[Sentence]:
    insights = context.insights
    nothing = [
        word
        for word, findings in (
            ("broke", insights.breaks),
            ("was compiled again", insights.recompiles),
            ("failed", insights.failures),
        )
        if not findings
    ]
    if not nothing:
        return []
    words = " or ".join(", ".join(nothing).rsplit(", ", 1))
    return [Sentence("✓", f"No graph {words}.")]


def _advised(advice: tuple[Trial, ...]) -> Iterator[Sentence]:
    if not advice:
        return
    helps = [trial for trial in advice if trial.ruling is Ruling.HELPS]
    untried = [trial for trial in advice if trial.ruling is Ruling.UNTRIED]
    best = next(iter([*helps, *untried]), None)
    if best is None:
        yield Sentence(
            "·", f"{counted(len(advice), 'suggestion was', 'suggestions were')} tried, and none helped.", "advice"
        )
        return
    step = " and ".join(_quietly(suggestion.what) for suggestion in best.suggestions)
    remark = f"tried: {best.reason}" if best.ruling is Ruling.HELPS else best.suggestions[0].place
    in_brackets = f" ({remark})" if remark else ""
    more = len(helps) + len(untried) - 1
    yield Sentence(
        "●",
        f"What to do first: {step}{in_brackets}" + (f"; {counted(more, 'more suggestion')}." if more else "."),
        "advice",
    )


def _quietly(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() or sentence[1:2] == " " else sentence
