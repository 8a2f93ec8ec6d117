"""Shorten lists of tensors that belong together, all at once."""

from __future__ import annotations

from functools import partial

from repro_kit.program.paired_lists import lengths, shortened
from repro_kit.program.program_edits import rewrite
from repro_kit.reduce.adaptive import rebasing
from repro_kit.reduce.search_state import Search

_MOST = 16  # parts of a list that are dropped one at a time


@rebasing
def lists(search: Search) -> None:
    """Keep one element of the lists, else as few as halving finds, with all that is made of these elements."""
    for length in lengths(search.program):
        _shorten(search, length)


def _shorten(search: Search, length: int) -> None:
    if _keep(search, length, [(0,), (length - 1,)]):
        return
    width = length // 2
    while width and length // width <= _MOST:
        dropped = [range(at, min(at + width, length)) for at in range(0, length, width)]
        kept = [tuple(at for at in range(length) if at not in run) for run in dropped]
        won = _keep(search, length, [each for each in kept if each])
        if won:
            length = len(won)
        width = min(width, length - 1) if won else width // 2


def _keep(search: Search, length: int, choices: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The first of `choices`, each the elements that stay, that fails alike; empty when none does."""
    won = search.first((rewrite(partial(shortened, length=length, kept=kept)) for kept in choices), fake=True)
    return () if won is None else choices[won]
