"""Bisect for the shortest failing prefix, then for its latest start. Values alive at a cut become inputs or outputs."""

from __future__ import annotations

from collections.abc import Sequence

from repro_kit.model.run_outcome import RunOutcome
from repro_kit.reduce.first import first_failing
from repro_kit.reduce.keep import keep
from repro_kit.reduce.search_state import Search


def cut_end(search: Search) -> None:
    """Bisect for the shortest failing prefix."""
    blocks = _blocks(search)
    first_failing(0, len(blocks), lambda sizes: _tried(search, [blocks[:size] for size in sizes]), search.oracle.jobs)


def cut_start(search: Search) -> None:
    """Bisect for the latest failing start."""
    blocks = _blocks(search)
    first_failing(0, len(blocks), lambda sizes: _tried(search, [blocks[-size:] for size in sizes]), search.oracle.jobs)


def ends(search: Search) -> None:
    """Keep only the first and the last block: the cuts found that the failure begins and ends there."""
    blocks = _blocks(search)
    if len(blocks) > 2:
        search.first([keep(search, [*blocks[0], *blocks[-1]])])


def _tried(search: Search, choices: Sequence[Sequence[Sequence[int]]]) -> list[RunOutcome]:
    """Keep only the blocks of the first choice that fails; the outcome of each choice. Those after it are not tried."""
    won = search.first([keep(search, [at for block in blocks for at in block]) for blocks in choices])
    if won is None:
        return [RunOutcome.PASSES] * len(choices)
    rest = [RunOutcome.CANNOT_TELL] * (len(choices) - won - 1)
    return [*[RunOutcome.PASSES] * won, RunOutcome.FAILS_ALIKE, *rest]


def _blocks(search: Search) -> list[list[int]]:
    """Live units in order. The units inside one functorch level form one block."""
    regions = search.base.regions
    blocks: list[list[int]] = []
    last = None
    for unit in search.units():
        region = next((bounds for bounds in regions if bounds[0] < unit[0] < bounds[1]), None)
        if region is not None and region == last:
            blocks[-1] += unit
        else:
            blocks.append(list(unit))
        last = region
    return blocks
