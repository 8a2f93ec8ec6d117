"""The sentences that come first: at most five, the most important things of a trace."""

from __future__ import annotations

from collections.abc import Iterator

from repro_kit.explain.context import Context, compiled_name, counted, headline, listed, seconds
from repro_kit.explain.judge import Ruling, Trial
from repro_kit.explain.numbers import frames, measured
from repro_kit.explain.report import Sentence
from repro_kit.explain.sections.breaks_section import cost, title
from repro_kit.explain.sections.recompiles_section import times, wanted
from repro_kit.explain.sections.specializations_section import WORDS, named
from repro_kit.trace.insights.overview import OverviewState
from repro_kit.trace.insights.recompiles import Recompiled

_MOST = 5


def sentences(context: Context, advice: tuple[Trial, ...]) -> tuple[Sentence, ...]:
    """What was compiled, what failed, broke, was compiled again or became a constant; the last one is what to do."""
    found = [*_compiled(context), *_failed(context), *_broken(context), *_recompiled(context), *_divergent(context)]
    found += [*_specialized(context), *_damaged(context)]
    if found and len(found) < 3 and context.insights.overview.compiles and not context.insights.text:
        found += _clean(context)
    last = [*_advised(advice)]
    return (*found[: _MOST - len(last)], *last)


def _compiled(context: Context) -> Iterator[Sentence]:
    overview = context.insights.overview
    if not overview.compiles:
        return
    if context.insights.text:
        codes = {compile_.code for compile_ in overview.compiles}
        told = f"{counted(len(overview.compiles), 'compile')} of {counted(len(codes), 'function')}"
        yield Sentence(
            "·", f"A text of TORCH_LOGS, of {told}: times, graphs and inputs would be in TORCH_TRACE.", "overview"
        )
        return
    states, numbers = overview.states(), measured(context.insights, "", 0)
    if not numbers.compiles:
        ended = ", ".join(f"{states[state]} {words}" for state, words in _OTHERS.items() if state in states)
        yield Sentence("!", f"Nothing was compiled: {ended}.", "overview")
        return
    functions = counted(frames(context.insights), "function")
    text = f"{counted(numbers.compiles, 'graph was', 'graphs were')} compiled of {functions}"
    text += f" by {len(overview.ranks)} ranks" if len(overview.ranks) > 1 else ""
    text += f" in {seconds(overview.seconds)}" if overview.seconds else ""
    others = [f"{states[state]} {words}" for state, words in _OTHERS.items() if state in states]
    text += f"; {', '.join(others)}" if others else ""
    yield Sentence("✓", f"{text}.", "overview")


_OTHERS = {
    OverviewState.EAGER: "left to eager",
    OverviewState.EMPTY: "of them empty",
    OverviewState.OPEN: "begun and not finished",
    OverviewState.FAILED: "failed",
}


def _failed(context: Context) -> Iterator[Sentence]:
    failures = context.insights.failures
    if failures:
        one = failures[0]
        reason = headline(one.reason)[:200].rstrip(".")
        at = f" at {context.place(one.where)}" if one.where else ""
        more = f"; {counted(len(failures) - 1, 'other failure')}" if len(failures) > 1 else ""
        yield Sentence(
            "✗",
            f"{counted(sum(failure.count for failure in failures), 'compile')} failed{at}: {one.type}: {reason}{more}.",
            "failures",
        )


def _broken(context: Context) -> Iterator[Sentence]:
    breaks = context.insights.breaks
    if not breaks:
        return
    one = breaks[0]
    what = f"{title(one)} ({costs})" if (costs := cost(context, one)) else title(one)
    total = sum(it.count for it in breaks)
    at = f" at {context.place(one.where)}" if one.where else ""
    if len(breaks) == 1:
        yield Sentence("!", f"{counted(total, 'graph break')}{at}: {what}.", "breaks")
        return
    others = dict.fromkeys(context.place(it.where) for it in breaks[1:] if it.where and it.where != one.where)
    places = listed(others, 3)
    elsewhere = f"; others at {places}" if places else ""
    at_places = f"{total} graph breaks at {counted(1 + len(others), 'place')}"
    yield Sentence("!", f"{at_places}, first{at}: {what}{elsewhere}.", "breaks")


def _recompiled(context: Context) -> Iterator[Sentence]:
    found = context.insights.recompiles
    if not found:
        return
    one = next((it for it in found if it.hit), found[0])
    at = f" ({place})" if (place := context.place(one.code)) else ""
    text = f"`{compiled_name(one.name)}`{at} was compiled {times(one)} times{_because(one)}"
    if one.hit:
        text += f", and hit the limit of {one.limit}: it runs in eager where none fits"
    others = list({(it.name, it.code): it for it in found if it.code is None or it.code != one.code}.values())
    text += (
        f"; {listed((f'`{compiled_name(other.name)}` {times(other)} times' for other in others), 3)}" if others else ""
    )
    yield Sentence("✗" if one.hit else "!", f"{text}.", "recompiles")


def _because(one: Recompiled) -> str:
    if one.values.sources:
        values = dict.fromkeys(row.values[0] for row in one.values.rows if row.values and row.values[0])
        seen = f" ({listed(values, 4)})" if values else ""
        return f", as {listed(one.values.sources, 2)} changed{seen}"
    return f", for {wanted(one.reasons[0].guard)}" if one.reasons else ""


def _specialized(context: Context) -> Iterator[Sentence]:
    found = context.insights.specializations
    if not found:
        return
    one = next((it for it in found if it.cause == "code" and it.where), found[0])
    at = f" at {place}" if (place := context.place(one.where)) else ""
    code = (one.where.code or context.line(one.where)) if one.where else ""
    why = f"`{code}`" if code else WORDS[one.cause]
    others = f"; {counted(len(found) - 1, 'more specialization')}" if len(found) > 1 else ""
    yield Sentence("!", f"{named(one)} became a constant{at}: {why}{others}.", "specializations")


def _divergent(context: Context) -> Iterator[Sentence]:
    ranks = context.insights.ranks
    if ranks.divergences:
        one = ranks.divergences[0]
        things = counted(len(ranks.divergences) + ranks.left_out, "thing")
        yield Sentence(
            "!", f"{len(ranks.ranks)} ranks differ in {things}, first in {one.compile_id} ({one.what}).", "ranks"
        )


def _damaged(context: Context) -> Iterator[Sentence]:
    problems = context.insights.problems
    if problems.damaged or problems.stray or problems.eventless:
        parts = [
            (problems.damaged, "damaged record"),
            (problems.stray, "line that is no record"),
            (problems.eventless, "record without an event"),
        ]
        text = listed(
            counted(number, what, what.replace("line that is", "lines that are") + "s" * ("line" not in what))
            for number, what in parts
            if number
        )
        yield Sentence("·", f"The log was read as far as it goes: {text}.")


def _clean(context: Context) -> list[Sentence]:
    insights = context.insights
    nothing = [
        word
        for word, there in (
            ("broke", insights.breaks),
            ("was compiled again", insights.recompiles),
            ("failed", insights.failures),
        )
        if not there
    ]
    if not nothing:
        return []
    words = " or ".join(", ".join(nothing).rsplit(", ", 1))
    return [Sentence("✓", f"No graph {words}.")]


def _advised(advice: tuple[Trial, ...]) -> Iterator[Sentence]:
    if not advice:
        return
    helps = [it for it in advice if it.ruling is Ruling.HELPS]
    untried = [it for it in advice if it.ruling is Ruling.UNTRIED]
    best = next(iter([*helps, *untried]), None)
    if best is None:
        yield Sentence(
            "·", f"{counted(len(advice), 'suggestion was', 'suggestions were')} tried, and none helped.", "advice"
        )
        return
    what = " and ".join(_quietly(suggestion.what) for suggestion in best.suggestions)
    told = f"tried: {best.reason}" if best.ruling is Ruling.HELPS else best.suggestions[0].place
    place = f" ({told})" if told else ""
    more = len(helps) + len(untried) - 1
    yield Sentence(
        "●", f"What to do first: {what}{place}" + (f"; {counted(more, 'more suggestion')}." if more else "."), "advice"
    )


def _quietly(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() or sentence[1:2] == " " else sentence
