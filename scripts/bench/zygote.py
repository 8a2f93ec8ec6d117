#!/usr/bin/env python3
"""Seconds per query and queries per second: forked from the zygote or in a fresh interpreter, one or two at a time.

    python scripts/bench/zygote.py [QUERIES] [--device cuda]

Prints a table; runs in the interpreter it is started with.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from repro_kit.runner.program_oracle import ProgramOracle

_PROGRAM = """import torch
RECIPE = {}
%s
def graph(x):
    y = torch.relu(x)
    return (y,)
def calls():
    return [(torch.randn(8, 16, device="DEVICE"),)]
"""
_RAISING = """from torch._inductor.lowering import lowerings
def no(*args):
    raise AssertionError("no")
lowerings[torch.ops.aten.relu.default] = no
"""
JOBS = (1, 2)
_SUBJECTS = {"a lowering that raises": _PROGRAM % _RAISING, "a small kernel": _PROGRAM % ""}


@dataclass(frozen=True)
class Cost:
    """`seconds`: median of one query; `rate`: queries per second, `jobs` at a time."""

    seconds: float
    rate: float


def cost(oracle: ProgramOracle, text: str, queries: int) -> Cost:
    """The speed of `queries` runs, after a few runs that warm the caches."""
    list(oracle.check([text] * oracle.jobs, None))
    started = time.monotonic()
    verdicts = list(oracle.check([text] * queries, None))
    elapsed = time.monotonic() - started
    return Cost(statistics.median(verdict.seconds for verdict in verdicts), queries / elapsed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("queries", nargs="?", type=int, default=6, help="of each kind (default: 6)")
    parser.add_argument("--device", default="cpu", help="of the program (default: cpu)")
    options = parser.parse_args()
    queries = options.queries
    print("| program | jobs | forked: s a query | queries/s | fresh: s a query | queries/s | forked / fresh |")
    print("|---" * 7 + "|")
    with tempfile.TemporaryDirectory() as cache:
        for jobs in JOBS:
            with (
                ProgramOracle(sys.executable, cache=Path(cache), jobs=jobs) as forking,
                ProgramOracle(sys.executable, how="spawn", cache=Path(cache), jobs=jobs) as spawning,
            ):
                for name, text in _SUBJECTS.items():
                    on_device = text.replace("DEVICE", options.device)
                    forked, fresh = cost(forking, on_device, queries), cost(spawning, on_device, queries)
                    cells = [f"{speed.seconds:.2f} | {speed.rate:.2f}" for speed in (forked, fresh)]
                    print(f"| {name} | {jobs} | {' | '.join(cells)} | {forked.rate / fresh.rate:.1f}× |", flush=True)


if __name__ == "__main__":
    main()
