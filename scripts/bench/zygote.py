"""Seconds per query: forked from the zygote, and in a fresh interpreter.

Usage: python scripts/bench/zygote.py [QUERIES]. Prints a table; runs in the interpreter it is started with.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from repro_kit.runner.oracle import Oracle
from repro_kit.runner.spawn import SpawnOracle
from repro_kit.runner.zygote import ZygoteOracle

_PROGRAM = """import torch
RECIPE = {}
%s
def graph(x):
    y = torch.relu(x)
    return (y,)
def calls():
    return [(torch.randn(8, 16),)]
"""
_RAISING = """from torch._inductor.lowering import lowerings
def no(*args):
    raise AssertionError("no")
lowerings[torch.ops.aten.relu.default] = no
"""
_SUBJECTS = {"a lowering that raises": _PROGRAM % _RAISING, "a small C++ kernel": _PROGRAM % ""}


def median_seconds(oracle: Oracle, text: str, queries: int) -> float:
    """Median of `queries` runs, after one that warms caches."""
    verdicts = list(oracle.check([text] * (queries + 1), None))
    return statistics.median(verdict.seconds for verdict in verdicts[1:])


def main() -> None:
    queries = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as cache:
        found = []
        for oracle_type in (ZygoteOracle, SpawnOracle):
            with oracle_type(sys.executable, cache=Path(cache)) as oracle:
                found.append([median_seconds(oracle, text, queries) for text in _SUBJECTS.values()])
    print(f"{'':24} {'forked':>8} {'fresh':>8} {'ratio':>6}")
    for name, forked, fresh in zip(_SUBJECTS, *found, strict=True):
        print(f"{name:24} {forked:8.2f} {fresh:8.2f} {fresh / forked:6.1f}")


if __name__ == "__main__":
    main()
