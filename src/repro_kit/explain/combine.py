"""Choose which suggestions to try together, after each was tried alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from repro_kit.explain.judge import Ruling, Trial, amount, better
from repro_kit.explain.suggestion import AppliedChange, Suggestion

_MOST = 4  # trials after the one with all suggestions


def combined(helpful: Sequence[Trial], run: Callable[[tuple[Suggestion, ...]], Trial]) -> list[Trial]:
    """The combination that improves on the best of `helpful`, if there is one.

    All are tried at once first, else the best one with one other at a time. `run` tries several suggestions at once.
    """
    chosen = _worth_joining(sorted(helpful, key=lambda trial: trial.score))
    if len(chosen) < 2:
        return []
    best = chosen[0]
    together = run(tuple(suggestion for trial in chosen for suggestion in trial.suggestions))
    if _wins(together, best):
        return [together]
    winners: list[Trial] = []
    for trial in chosen[1 : 1 + _MOST] if len(chosen) > 2 else []:
        wider = run((*best.suggestions, *trial.suggestions))
        if _wins(wider, best):
            best, winners = wider, [wider]
    return winners


def change_of(suggestions: Sequence[Suggestion]) -> AppliedChange:
    """The changes of all suggestions in one."""
    joined = AppliedChange()
    for suggestion in suggestions:
        joined = joined.joined(suggestion.change or AppliedChange())
    return joined


def _wins(trial: Trial, best: Trial) -> bool:
    return trial.ruling is Ruling.HELPS and better(trial, best)


def _worth_joining(trials: Sequence[Trial]) -> list[Trial]:
    """The best of `trials`, and the compatible ones that lower something that the best one leaves."""
    kept = list(trials[:1])
    for trial in trials[1:]:
        after = trials[0].after
        left = after is not None and any(amount(suggestion.aim, after) for suggestion in trial.suggestions)
        if left and not any(change_of(chosen.suggestions).contradicts(change_of(trial.suggestions)) for chosen in kept):
            kept.append(trial)
    return kept
