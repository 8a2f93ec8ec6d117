"""Advice: rules from insights to suggestions; each module says what to do about one kind of finding."""

from __future__ import annotations

from repro_kit.explain.advice import breaks, recompiles, run, shapes
from repro_kit.explain.context import Context
from repro_kit.explain.suggestion import Suggestion


def suggestions(context: Context) -> tuple[Suggestion, ...]:
    """All suggestions, the most useful kind first; none twice."""
    found = [it for module in (run, breaks, recompiles, shapes) for it in module.suggest(context)]
    seen: dict[object, Suggestion] = {}
    for it in found:
        seen.setdefault((it.what, str(it.change), it.edit), it)
    return tuple(seen.values())
