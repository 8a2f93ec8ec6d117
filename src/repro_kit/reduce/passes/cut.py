"""Bisect for the shortest failing prefix, then for its latest start. Values alive at a cut become inputs or outputs."""

from __future__ import annotations

from collections.abc import Sequence

from repro_kit.reduce.adaptive import narrow
from repro_kit.reduce.keep import keep
from repro_kit.reduce.search_state import Search


def cut_end(search: Search) -> None:
    """Bisect for the shortest failing prefix."""
    blocks = _blocks(search)
    narrow(search, 0, len(blocks), lambda _, at: [keep(search, _joined(blocks[:at]))])


def cut_start(search: Search) -> None:
    """Bisect for the latest failing start."""
    blocks = _blocks(search)
    narrow(search, len(blocks), 0, lambda _, at: [keep(search, _joined(blocks[at:]))])


def ends(search: Search) -> None:
    """Keep only the first and the last block: the cuts found that the failure begins and ends there."""
    blocks = _blocks(search)
    if len(blocks) > 2:
        search.first([keep(search, [*blocks[0], *blocks[-1]])])


def _joined(blocks: Sequence[Sequence[int]]) -> list[int]:
    return [at for block in blocks for at in block]


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
