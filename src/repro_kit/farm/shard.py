"""Split the cases of a farm among machines: each takes about the same time, and a new case moves few of the others."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from statistics import median


def shard(ids: Sequence[str], seconds: Mapping[str, float], number: int, of: int) -> set[str]:
    """The cases of shard `number` (1 to `of`).

    The cases are sorted by a hash and laid end to end with their recorded seconds (the median, if none are recorded).
    The whole length is cut into equal parts. A case belongs to the part that holds its middle.
    """
    usual = median(seconds.values()) if seconds else 1.0
    order = sorted(ids, key=lambda id: hashlib.sha256(id.encode()).digest())
    weights = [max(seconds.get(id, usual), 0.001) for id in order]
    total, before, chosen = sum(weights), 0.0, set()
    for id, weight in zip(order, weights, strict=True):
        middle = (before + weight / 2) / total
        if (number - 1) / of <= middle < number / of:
            chosen.add(id)
        before += weight
    return chosen
