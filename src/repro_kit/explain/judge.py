"""Did a suggestion help? Judged by the number it is about, and by what it must not cost."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from repro_kit.explain.result_comparison import Results, compare
from repro_kit.explain.suggestion import Aim, Suggestion
from repro_kit.model.measure.measured_run import MeasuredRun, Steady, steady

_SLOWER = 1.5  # times the steady-state time: less is noise on most machines
_FASTER_COMPILE = 0.8
_STEADY = (Aim.GRAPH_BREAKS, Aim.FAILURES)  # the same in each run of a script that does the same each time
_SHORT = 2e-4  # seconds: a call this much longer is no loss


class Ruling(StrEnum):
    """What became of a suggestion."""

    HELPS = "helps"
    WITHDRAWN = "withdrawn"
    UNTRIED = "untried"


@dataclass(frozen=True)
class Trial:
    """The suggestions that were applied together, and what was measured."""

    suggestions: tuple[Suggestion, ...]
    ruling: Ruling
    reason: str
    before: MeasuredRun | None = None
    after: MeasuredRun | None = None
    steady: Steady | None = None
    results: Results | None = None

    @property
    def score(self) -> tuple[int, ...]:
        """The less the better: what stops a graph first, then compiles; the fewer suggestions the better."""
        after = self.after
        if after is None:
            return (0, 0, 0)
        return (after.failures + after.limit_hits + after.graph_breaks, after.compiles, len(self.suggestions))


def judge(
    suggestions: tuple[Suggestion, ...], before: MeasuredRun, after: MeasuredRun, again: MeasuredRun | None
) -> Trial:
    """Rule on `suggestions`; `again` is the second run of the script as it was."""
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


def better(one: Trial, two: Trial) -> bool:
    """Whether `one` lowers more than `two`."""
    return one.score < two.score


def _noise(before: MeasuredRun, again: MeasuredRun | None) -> float:
    found = steady(before, again) if again else None
    return max(found.ratio, 1 / found.ratio) if found and found.ratio else 1.0


def _against(before: MeasuredRun, after: MeasuredRun, results: Results, time: Steady | None, noise: float) -> str:
    if results.same is False:
        return results.sentence
    if after.failures > before.failures:
        return f"{after.failures - before.failures} more compiles fail"
    if after.ops < 0.95 * before.ops:
        return f"it compiles less: {before.ops} → {after.ops} ops"
    if after.limit_hits > before.limit_hits:
        return "more frames hit the recompile limit, and run in eager then"
    if time and time.ratio > _SLOWER * noise and time.after - time.before > _SHORT:
        return f"calls that compile nothing take {time.ratio:.1f} times as long"
    return ""


def _gain(aim: Aim, before: MeasuredRun, after: MeasuredRun, again: MeasuredRun | None) -> str:
    """What `after` lowers, in words. What one of two runs as it was does without is no gain: it comes and goes.

    Recompiles and times are less in the second run anyway, whose caches and profile are warm.
    """
    one, two = amount(aim, before), amount(aim, after)
    least = min(one, amount(aim, again)) if again and aim in _STEADY else one
    enough = two < _FASTER_COMPILE * one if aim is Aim.COMPILE_SECONDS else two < least
    return f"{one:g} → {two:g} {aim}" if enough else ""


def _no_gain(aim: Aim, before: MeasuredRun, after: MeasuredRun) -> str:
    if aim in _STEADY and amount(aim, after) < amount(aim, before):
        return f"a second run as it is does without some of the {amount(aim, before)} {aim}, too"
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
