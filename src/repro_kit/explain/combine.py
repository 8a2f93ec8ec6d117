"""Which suggestions to try together, once each was tried alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from repro_kit.explain.judge import Ruling, Trial, amount, better
from repro_kit.explain.suggestion import AppliedChange, Suggestion

_MOST = 4  # trials after the first


def combined(helpful: Sequence[Trial], run: Callable[[tuple[Suggestion, ...]], Trial]) -> list[Trial]:
    """The combination that lowers more than each of `helpful` does alone, if there is one: all at once, else the best
    one with one more at a time. `run` tries several at once.
    """
    chosen = _worth_joining(sorted(helpful, key=lambda it: it.score))
    if len(chosen) < 2:
        return []
    best = chosen[0]
    together = run(tuple(suggestion for trial in chosen for suggestion in trial.suggestions))
    if _wins(together, best):
        return [together]
    found: list[Trial] = []
    for trial in chosen[1 : 1 + _MOST] if len(chosen) > 2 else []:
        wider = run((*best.suggestions, *trial.suggestions))
        if _wins(wider, best):
            best, found = wider, [wider]
    return found


def change_of(suggestions: Sequence[Suggestion]) -> AppliedChange:
    """All their changes in one."""
    joined = AppliedChange()
    for suggestion in suggestions:
        joined = joined.joined(suggestion.change or AppliedChange())
    return joined


def _wins(trial: Trial, best: Trial) -> bool:
    return trial.ruling is Ruling.HELPS and better(trial, best)


def _worth_joining(trials: Sequence[Trial]) -> list[Trial]:
    """The best of `trials`, and those that lower something it leaves and contradict none before them."""
    kept = list(trials[:1])
    for trial in trials[1:]:
        after = trials[0].after
        left = after is not None and any(amount(suggestion.aim, after) for suggestion in trial.suggestions)
        if left and not any(change_of(it.suggestions).contradicts(change_of(trial.suggestions)) for it in kept):
            kept.append(trial)
    return kept
