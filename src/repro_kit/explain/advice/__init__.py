"""Advice: rules that turn insights into suggestions. Each module covers one kind of finding."""

from __future__ import annotations

from dataclasses import replace

from repro_kit.explain.advice.break_advice import suggest_for_breaks, suggest_for_runs
from repro_kit.explain.advice.recompile_advice import suggest_for_recompiles
from repro_kit.explain.advice.shape_advice import suggest_for_shapes
from repro_kit.explain.context import Context
from repro_kit.explain.suggestion import Suggestion

_WHYS = 3


def suggestions(context: Context) -> tuple[Suggestion, ...]:
    """All suggestions, those with the largest saving first; one step with several reasons is listed once."""
    groups: dict[object, list[Suggestion]] = {}
    for suggest in (suggest_for_runs, suggest_for_breaks, suggest_for_recompiles, suggest_for_shapes):
        for suggestion in suggest(context):
            groups.setdefault(
                str(suggestion.change) if suggestion.change else (suggestion.what, suggestion.edit), []
            ).append(suggestion)
    merged = [_merged(group) for group in groups.values()]
    return tuple(sorted(merged, key=lambda suggestion: -suggestion.weight))


def _merged(group: list[Suggestion]) -> Suggestion:
    first = group[0]
    whys = list(dict.fromkeys(suggestion.why for suggestion in group))
    more = f"; and {len(whys) - _WHYS} more" if len(whys) > _WHYS else ""
    return replace(first, why="; ".join(whys[:_WHYS]) + more, weight=sum(suggestion.weight for suggestion in group))
