#!/usr/bin/env python3
"""Measure the overhead of `repro_kit.watch` in a training loop without failures: on and off in turn, in one process.

    .venv/bin/python scripts/bench/watch.py [--steps N] [--rounds N] [--compile]

Prints CPU seconds of a round with and without, their medians, and the overhead. A round is N steps of a small
transformer on the CPU. Each side has a step function of its own, compiled as that side runs: what watching adds to the
calls of a graph that was compiled while it was on is in its rounds.
With `--compile` each round compiles anew instead (small, with caches off): what watching adds to a compilation.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
import types
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

import repro_kit


class Block(nn.Module):
    """One layer of a transformer."""

    def __init__(self, width: int = 128, heads: int = 4) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention, then the two linear layers, each added to its input."""
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return x + self.down(torch.relu(self.up(self.norm(x))))


def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """The forward pass that is compiled."""
    return model(x).square().mean()


@dataclass
class Trainer:
    """A model, its optimizer, and its own compiled function (Dynamo keeps compiled code by the code object)."""

    def __post_init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(Block(), Block(), nn.Linear(128, 128))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.loss = torch.compile(types.FunctionType(loss.__code__.replace(), globals()))

    def steps(self, count: int) -> None:
        """`count` steps of training."""
        x = torch.randn(8, 32, 128)
        for _ in range(count):
            self.optimizer.zero_grad()
            self.loss(self.model, x).backward()
            self.optimizer.step()


def cpu_seconds(watched: bool, call: Callable[[], None]) -> float:
    """The CPU seconds of `call`, watched or not."""
    context = repro_kit.watch("bench.repro") if watched else contextlib.nullcontext()
    began = time.process_time()
    with context:
        call()
    return time.process_time() - began


def main() -> None:
    """Run the rounds, and print their times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--compile", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    sides = {}
    for watched in (True, False):  # each side has a model that was compiled as it runs
        with repro_kit.watch("bench.repro") if watched else contextlib.nullcontext():
            sides[watched] = Trainer()
            sides[watched].steps(3)
    took: dict[bool, list[float]] = {True: [], False: []}
    for at in range(given.rounds):
        for watched in (True, False) if at % 2 else (False, True):

            def run_once(watched: bool = watched) -> None:
                if given.compile:
                    with torch._inductor.config.patch(force_disable_caches=True):
                        Trainer().steps(1)
                else:
                    sides[watched].steps(given.steps)

            took[watched].append(cpu_seconds(watched, run_once))
    units = "compilations" if given.compile else f"rounds of {given.steps} steps"
    on, off = statistics.median(took[True]), statistics.median(took[False])
    paired = statistics.median(a / b for a, b in zip(took[True], took[False], strict=True))
    print(f"{given.rounds} {units}, CPU seconds, median: watched {on:.3f}, not watched {off:.3f}")
    print(f"overhead: {100 * (on / off - 1):+.2f} % of the medians, {100 * (paired - 1):+.2f} % in pairs (median)")


if __name__ == "__main__":
    main()
