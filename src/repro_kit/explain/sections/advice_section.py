"""The advice: each suggestion with how to follow it, and the result of its trial."""

from __future__ import annotations

from collections.abc import Iterator

from repro_kit.explain.context import counted
from repro_kit.explain.measured_run import MeasuredRun, Steady
from repro_kit.explain.report import Block, Code, Item, Section, Table, Words
from repro_kit.explain.suggestion import Suggestion
from repro_kit.explain.trials import Ruling, Trial

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
