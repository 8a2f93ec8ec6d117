"""Decide whether a suggestion helped: by the number that it should lower, and by its side effects."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from repro_kit.explain.result_comparison import Results, compare
from repro_kit.explain.suggestion import Aim, Suggestion
from repro_kit.model.measure.measured_run import MeasuredRun, Steady, steady

_SLOWER = 1.5  # times the steady-state time; a smaller change is noise on most machines
_FASTER_COMPILE = 0.8
_STEADY = (Aim.GRAPH_BREAKS, Aim.FAILURES)  # equal in every run of a deterministic script
_SHORT = 2e-4  # seconds; a call may get longer by this much


class Ruling(StrEnum):
    """The result of trying a suggestion."""

    HELPS = "helps"
    WITHDRAWN = "withdrawn"
    UNTRIED = "untried"


@dataclass(frozen=True)
class Trial:
    """Suggestions that were applied together, and the measurements."""

    suggestions: tuple[Suggestion, ...]
    ruling: Ruling
    reason: str
    before: MeasuredRun | None = None
    after: MeasuredRun | None = None
    steady: Steady | None = None
    results: Results | None = None

    @property
    def score(self) -> tuple[int, ...]:
        """Lower is better: first what stops a graph, then compiles, then the number of suggestions."""
        after = self.after
        if after is None:
            return (0, 0, 0)
        return (after.failures + after.limit_hits + after.graph_breaks, after.compiles, len(self.suggestions))


def judge(
    suggestions: tuple[Suggestion, ...], before: MeasuredRun, after: MeasuredRun, again: MeasuredRun | None
) -> Trial:
    """Decide on `suggestions`; `again` is a second run of the unchanged script."""
    results = compare(before, after, again)
    time = steady(before, after)
    against = _against(before, after, results, time, _noise(before, again))
    aims = list(dict.fromkeys(suggestion.aim for suggestion in suggestions))
    gains = [gain for aim in aims if (gain := _gain(aim, before, after, again))]
    ruling = Ruling.HELPS if gains and not against else Ruling.WITHDRAWN
    missing = "; ".join(_no_gain(aim, before, after) for aim in aims)
    return Trial(
        suggestions, ruling, against or ", ".join(gains) or missing, before.bare(), after.bare(), time, results
    )


def better(trial: Trial, other: Trial) -> bool:
    """Whether `trial` has a lower score than `other`."""
    return trial.score < other.score


def _noise(before: MeasuredRun, again: MeasuredRun | None) -> float:
    time = steady(before, again) if again else None
    return max(time.ratio, 1 / time.ratio) if time and time.ratio else 1.0


def _against(before: MeasuredRun, after: MeasuredRun, results: Results, time: Steady | None, noise: float) -> str:
    if results.same is False:
        return results.sentence
    if after.failures > before.failures:
        return f"{after.failures - before.failures} more compiles fail"
    if after.ops < 0.95 * before.ops:
        return f"fewer ops are compiled: {before.ops} → {after.ops}"
    if after.limit_hits > before.limit_hits:
        return "more frames hit the recompile limit, and then run in eager"
    if time and time.ratio > _SLOWER * noise and time.after - time.before > _SHORT:
        return f"calls that compile nothing take {time.ratio:.1f} times as long"
    return ""


def _gain(aim: Aim, before: MeasuredRun, after: MeasuredRun, again: MeasuredRun | None) -> str:
    """What `after` lowers, in words; empty for no gain.

    A number that also drops in one of the two unchanged runs varies by itself, so its drop is no gain. Recompiles and
    times are not compared with the second unchanged run, because its caches and profile are warm.
    """
    before_amount, after_amount = amount(aim, before), amount(aim, after)
    least = min(before_amount, amount(aim, again)) if again and aim in _STEADY else before_amount
    enough = after_amount < _FASTER_COMPILE * before_amount if aim is Aim.COMPILE_SECONDS else after_amount < least
    return f"{before_amount:g} → {after_amount:g} {aim}" if enough else ""


def _no_gain(aim: Aim, before: MeasuredRun, after: MeasuredRun) -> str:
    if aim in _STEADY and amount(aim, after) < amount(aim, before):
        return f"a second unchanged run also has fewer than {amount(aim, before)} {aim}, so the number varies by itself"
    return f"still {amount(aim, after)} {aim}"


def amount(aim: Aim, measured: MeasuredRun) -> float:
    """The number that `aim` is about."""
    match aim:
        case Aim.GRAPH_BREAKS:
            return measured.graph_breaks
        case Aim.RECOMPILES:
            return measured.recompiles
        case Aim.LIMIT_HITS:
            return measured.limit_hits
        case Aim.FAILURES:
            return measured.failures
        case Aim.COMPILE_SECONDS:
            return round(measured.compile_seconds, 1)
