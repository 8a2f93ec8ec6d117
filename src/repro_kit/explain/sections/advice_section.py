"""The advice, with how to follow it and the result of its trial; and where ranks compiled different code."""

from __future__ import annotations

from collections.abc import Iterator

from repro_kit.explain.context import Context, counted, listed
from repro_kit.explain.extra_run import MeasuredRun, Steady
from repro_kit.explain.report import Block, Code, Item, Section, Table, Words
from repro_kit.explain.suggestion import Suggestion
from repro_kit.explain.trials import Ruling, Trial
from repro_kit.trace.insights.collectives import DumpedRank, Waiting
from repro_kit.trace.insights.overview import OverviewState
from repro_kit.trace.insights.ranks import Divergence, ExpectedTimes, Parting
from repro_kit.trace.rank_history import Collective, named_ranks

_WORDS = {Ruling.HELPS: "helps", Ruling.WITHDRAWN: "withdrawn"}


def advice_section(
    trials: tuple[Trial, ...], cold: MeasuredRun | None = None, warm: MeasuredRun | None = None
) -> Section:
    """Helpful suggestions first.

    `cold` and `warm` are runs of the unchanged script, first with empty caches, then with filled ones.
    """
    items = [*([_warm(cold, warm)] if cold and warm else []), *(_suggestion(trial) for trial in trials)]
    if not trials:
        return Section("advice", "Advice", "nothing to suggest", tuple(items))
    rulings = [trial.ruling for trial in trials]
    words = {Ruling.HELPS: "help", Ruling.WITHDRAWN: "withdrawn", Ruling.UNTRIED: "untried"}
    counts = ", ".join(f"{rulings.count(ruling)} {word}" for ruling, word in words.items() if ruling in rulings)
    summary = counted(len(trials), "suggestion") + (f": {counts}" if set(rulings) != {Ruling.UNTRIED} else "")
    return Section("advice", "Advice", summary, tuple(items))


def _warm(cold: MeasuredRun, warm: MeasuredRun) -> Item:
    rows = tuple(_rows(cold, warm))
    words = "the same script again, with the compiler's caches and the profile of sizes (PGO) of the first run"
    return Item("A cold run against a warm one", blocks=(Words(words), Table(("", "cold", "warm"), rows)))


def _suggestion(trial: Trial) -> Item:
    ruling = _WORDS.get(trial.ruling, trial.reason)
    title = " + ".join(suggestion.what for suggestion in trial.suggestions)
    places = tuple(dict.fromkeys(suggestion.place for suggestion in trial.suggestions if suggestion.place))
    return Item(f"{title} [{ruling}]", places, tuple(_blocks(trial)))


def _blocks(trial: Trial) -> Iterator[Block]:
    if trial.ruling is not Ruling.UNTRIED:
        yield Words(f"{'Tried' if trial.ruling is Ruling.HELPS else 'Tried, and withdrawn'}: {trial.reason}")
    if trial.before and trial.after:
        rows = [*_rows(trial.before, trial.after)]
        if trial.steady:
            rows.append(_steady(trial.steady))
        yield Table(("", "before", "after"), tuple(rows))
    if trial.results:
        same = {True: "Results", False: "Results differ", None: "Results could not be compared"}[trial.results.same]
        yield Words(f"{same}: {trial.results.sentence}")
    if trial.before and trial.after and trial.before.ended != trial.after.ended:
        yield Words(f"Output of the run: {trial.after.place}")
    if len(trial.suggestions) == 1:
        for suggestion in trial.suggestions:
            yield from _how(suggestion)


def _how(suggestion: Suggestion) -> Iterator[Block]:
    yield Words(f"Why: {suggestion.why}")
    if suggestion.change:
        yield Code("\n".join(suggestion.change.lines()), "shell")
    if suggestion.edit:
        yield Code(suggestion.edit.diff, "diff")
    if suggestion.note:
        yield Words(f"Note: {suggestion.note}")


def _rows(before: MeasuredRun, after: MeasuredRun) -> Iterator[tuple[str, str, str]]:
    yield "compiles", str(before.compiles), str(after.compiles)
    yield "recompiles", str(before.recompiles), str(after.recompiles)
    yield "graph breaks", str(before.graph_breaks), str(after.graph_breaks)
    if before.limit_hits or after.limit_hits:
        yield "limit hit", str(before.limit_hits), str(after.limit_hits)
    if before.failures or after.failures:
        yield "failed compiles", str(before.failures), str(after.failures)
    yield "ops compiled", str(before.ops), str(after.ops)
    yield "compile time", f"{before.compile_seconds:.1f} s", f"{after.compile_seconds:.1f} s"


def _steady(time: Steady) -> tuple[str, str, str]:
    return f"a call that compiles nothing (median of {time.calls})", _milli(time.before), _milli(time.after)


def _milli(value: float) -> str:
    return f"{value * 1000:.3g} ms"


_PARTED = {
    "code": "the ranks compile different functions",
    "compiles": "not all ranks compiled it",
    "graph": "the graphs differ",
    "collectives": "the compiled code calls different collectives",
    "tensors": "the compiled code makes tensors of other sizes, dtypes or layouts",
    "cache": "the caches answered differently",
    "order": "the ranks run their graphs in another order",
}
_LATE_RANKS = 5  # ranks that did not come, each with a sentence


def ranks_section(context: Context) -> Section:
    """One item for each divergence of the compiles, and one for the collectives of the flight recorder."""
    ranks, dumped = context.insights.ranks, context.insights.collectives.ranks
    items = [*_collective_items(context), *_compile_items(context)]
    if len(ranks.ranks) < 2 and not dumped:
        return Section("ranks", "Ranks", "one process" if not ranks.ranks else "one rank", tuple(items))
    parted = list(collective_sentences(context))
    number = len(ranks.divergences) + ranks.left_out
    differ = [counted(number, "divergence")] if number else []
    differ += ["the collectives part"] if parted else []
    return Section("ranks", "Ranks", " and ".join(differ) or "they agree", tuple(items))


def collective_sentences(context: Context) -> Iterator[str]:
    """Where the collectives of the ranks part, from the dumps of the flight recorder; nothing where they do not."""
    collectives = context.insights.collectives
    if collectives.apart:
        yield f"The ranks call different collectives: {collectives.apart}"
    elif collectives.waiting is not None:
        yield from _waiting(context, collectives.waiting)
    if collectives.undumped:
        yield (
            f"There is no dump of {named_ranks(collectives.undumped)}, which may have ended before the others, "
            "or lie on another machine."
        )


def _waiting(context: Context, waiting: Waiting) -> Iterator[str]:
    who, call = named_ranks(waiting.ranks), waiting.collective
    named = f"{_named(context, call)} (number {call.number} of group {call.group})"
    absent = named_ranks([rank for rank, _ in waiting.absent])
    if waiting.absent:
        verb = "waits" if len(waiting.ranks) == 1 else "wait"
        yield f"{who.capitalize()} {verb} in {named}, to which {absent} did not come."
    elif len(waiting.ranks) > 1:
        yield f"All ranks came to {named}, and it was not done on {who}."
    for rank, last in waiting.absent[:_LATE_RANKS]:
        its_last = f"its last collective of that group was {_named(context, last)}" if last else "it called none of it"
        yield f"Rank {rank}: {its_last}{_compiling(context, rank)}."


def _compiling(context: Context, rank: int) -> str:
    """That the trace of `rank` ends inside a compile, where it does."""
    for compile_ in reversed(context.insights.overview.compiles):
        if compile_.ref.rank == rank:
            if compile_.state is not OverviewState.OPEN:
                return ""
            place = context.place(compile_.code)
            name = f" of `{compile_.code.function}` ({place})" if compile_.code and place else ""
            return (
                f"; its trace ends inside the compile {compile_.ref.compile_id}{name}, so it was compiling. "
                "A slow compile is not a hang: the others wait for it"
            )
    return ""


def _named(context: Context, call: Collective) -> str:
    file, _, line = call.line.rpartition(":")
    return f"{call.name} at {context.file(file)}:{line}" if file else call.name


def _collective_items(context: Context) -> Iterator[Item]:
    collectives = context.insights.collectives
    if collectives.ranks:
        rows = tuple(_rank_row(context, rank) for rank in collectives.ranks)
        words = tuple(Words(sentence) for sentence in collective_sentences(context))
        table = Table(("rank", "collectives", "the last one", "not done"), rows)
        yield Item("Collectives, from the dumps of the flight recorder", blocks=(*words, table))
    for sentence in collectives.unread:
        yield Item(f"Not read: {sentence}")


def _rank_row(context: Context, rank: DumpedRank) -> tuple[str, ...]:
    last, waits = (_named(context, call) if call else "" for call in (rank.last, rank.waits))
    return (str(rank.rank), str(rank.collectives), last, waits)


def _compile_items(context: Context) -> Iterator[Item]:
    ranks = context.insights.ranks
    if len(ranks.ranks) < 2:
        return
    numbers = ", ".join(f"rank {rank} {number}" for rank, number in ranks.compiles.items())
    whence = f"Ranks by the file name: {listed(ranks.named)}" if ranks.named else "Ranks by the records"
    yield Item(f"Compiles of {len(ranks.ranks)} ranks: {numbers}", blocks=(Words(whence),))
    if ranks.runtimes:
        times = ", ".join(f"rank {rank} {seconds * 1e3:.3g} ms" for rank, seconds in ranks.runtimes.items())
        yield Item(f"What Inductor expects all graphs to take: {times}")
    if ranks.uneven:
        rows = tuple(_uneven_row(times) for times in ranks.uneven)
        yield Item("Graphs of which Inductor expects other times by rank", (), (Table(_UNEVEN, rows),))
    for divergence in ranks.divergences:
        yield _divergence(divergence, context.insights.parting)
    if ranks.left_out:
        yield Item(f"… and {ranks.left_out} more")


_UNEVEN = ("graph", "fastest", "slowest", "difference")


def _uneven_row(times: ExpectedTimes) -> tuple[str, ...]:
    by_time = sorted(times.seconds.items(), key=lambda one: one[1])
    ends = (f"rank {rank}, {_micro(seconds)}" for rank, seconds in (by_time[0], by_time[-1]))
    return (times.compile_id, *ends, _micro(times.spread))


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:.3g} µs" if seconds < 1e-3 else _milli(seconds)


def _divergence(divergence: Divergence, parting: Parting | None) -> Item:
    groups = Table(("what", "ranks"), tuple((text, ", ".join(map(str, at))) for text, at in divergence.groups))
    parted = _PARTED.get(divergence.what, divergence.what)
    title = f"{listed(divergence.compile_ids)}: {parted}" if divergence.compile_id else parted.capitalize()
    words = [f"The table is of {divergence.compile_id}; the same ranks differ in all."] if divergence.also else []
    if parting is not None and (divergence.what, divergence.compile_id) == ("graph", parting.compile_id):
        words.append(parting.sentences())
    return Item(title, blocks=(groups, *(Words(sentence) for sentence in words if sentence)))
