"""Advice: rules from insights to suggestions; each module says what to do about one kind of finding."""

from __future__ import annotations

from dataclasses import replace

from repro_kit.explain.advice import breaks, recompiles, run, shapes
from repro_kit.explain.context import Context
from repro_kit.explain.suggestion import Suggestion

_WHYS = 3


def suggestions(context: Context) -> tuple[Suggestion, ...]:
    """All suggestions, those that may save most first; the same step for several reasons is one."""
    groups: dict[object, list[Suggestion]] = {}
    for module in (run, breaks, recompiles, shapes):
        for it in module.suggest(context):
            groups.setdefault(str(it.change) if it.change else (it.what, it.edit), []).append(it)
    merged = [_merged(group) for group in groups.values()]
    return tuple(sorted(merged, key=lambda it: -it.weight))


def _merged(group: list[Suggestion]) -> Suggestion:
    first = group[0]
    whys = list(dict.fromkeys(it.why for it in group))
    more = f"; and {len(whys) - _WHYS} more" if len(whys) > _WHYS else ""
    return replace(first, why="; ".join(whys[:_WHYS]) + more, weight=sum(it.weight for it in group))
