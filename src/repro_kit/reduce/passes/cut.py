"""The shortest failing prefix, then the latest start; everything alive at a cut stays alive."""

from __future__ import annotations

from collections.abc import Sequence

from repro_kit.reduce.keep import keep
from repro_kit.reduce.search import Search


def cut_end(search: Search) -> None:
    """Bisect for the shortest prefix that fails."""
    blocks = _blocks(search)
    low, high = 0, len(blocks)
    while high - low > 1:
        probes = _probes(low, high, search.oracle.jobs)
        won = search.first([keep(search, _joined(blocks[:at])) for at in probes])
        high, low = (probes[won], probes[won - 1] if won else low) if won is not None else (high, probes[-1])


def cut_start(search: Search) -> None:
    """Bisect for the latest start that fails."""
    blocks = _blocks(search)
    low, high = 0, len(blocks)
    while high - low > 1:
        probes = _probes(low, high, search.oracle.jobs)[::-1]
        won = search.first([keep(search, _joined(blocks[at:])) for at in probes])
        low, high = (probes[won], probes[won - 1] if won else high) if won is not None else (low, probes[-1])


def ends(search: Search) -> None:
    """Keep nothing between what the cuts found to start and to end the failure."""
    blocks = _blocks(search)
    if len(blocks) > 2:
        search.first([keep(search, [*blocks[0], *blocks[-1]])])


def _probes(low: int, high: int, jobs: int) -> list[int]:
    """Up to `jobs` points strictly between, evenly spaced, ascending."""
    count = min(max(1, jobs), high - low - 1)
    return [low + (high - low) * (at + 1) // (count + 1) for at in range(count)]


def _joined(blocks: Sequence[Sequence[int]]) -> list[int]:
    return [at for block in blocks for at in block]


def _blocks(search: Search) -> list[list[int]]:
    """Live units in order; those inside one functorch level are one block."""
    regions = search.base.regions
    blocks: list[list[int]] = []
    last = None
    for unit in search.units():
        region = next((it for it in regions if it[0] < unit[0] < it[1]), None)
        if region is not None and region == last:
            blocks[-1] += unit
        else:
            blocks.append(list(unit))
        last = region
    return blocks
