"""Advice: rules that turn insights into suggestions. Each module covers one kind of finding."""

from __future__ import annotations

from dataclasses import replace

from repro_kit.explain.advice import break_advice, recompile_advice, run_advice, shape_advice
from repro_kit.explain.context import Context
from repro_kit.explain.suggestion import Suggestion

_WHYS = 3


def suggestions(context: Context) -> tuple[Suggestion, ...]:
    """All suggestions, those with the largest saving first; one step with several reasons is listed once."""
    groups: dict[object, list[Suggestion]] = {}
    for module in (run_advice, break_advice, recompile_advice, shape_advice):
        for suggestion in module.suggest(context):
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
