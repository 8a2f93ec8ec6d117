#!/usr/bin/env python3
"""Count the reducer's queries and measure its own time, with oracles that need no torch.

    python scripts/bench/queries.py [--seed N] [--runs N] [--jobs N] [--quick]

The first table has, for graphs of 10 to 2,000 statements of which 1, 2, 4 or 8 make the bug, the queries and in
parentheses 2·log2 n + k·(2·log2 gap + 1), which two bisections and a galloping search for k culprits with that mean gap
between them need; then the statements left beyond the culprits, and the processor time that the reducer takes for
itself per query. The second table has two graphs of 193 statements next to what PyTorch's minifier needed for a
transformer of that size; of its queries about ten look around the result, so it says what was left after 45 as well.
The third table has seconds: each query costs what such a query took in a reduction (`COSTS`).

    python scripts/bench/queries.py --fit EVENTS...

fits the costs to what `repro-kit minify --events EVENTS` wrote: seconds of a program without statements, and of each.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "helpers"))

from repro_kit.graph import Program
from repro_kit.graph.effects import Base
from repro_kit.graph.reducer import minify
from repro_kit.reduce import Answer, Result
from repro_kit.reduce.cost import Costs
from samples.transformer import Shaped, transformer
from synthetic import Synthetic, build

SIZES = (10, 30, 100, 300, 1000, 2000)
CULPRITS = (1, 2, 4, 8)
LARGE = 193
EARLY = 45  # queries
STEPS = (50, 116)  # statements of a graph
#: Seconds of a query: of a program without statements, and of each statement. The first is fitted to a U-Net's training
#: step of 52 statements on two busy cores (`--fit`); the second stands for what does not reach the C++ compiler.
COSTS = {"training step": (1.0, 0.7), "error while lowering": (0.6, 0.02)}
#: (culprits, on a path): queries and statements left of PyTorch's minifier (torch 2.13.0, aten transformer, 193 nodes)
PYTORCH = {(1, False): (30, 1.2), (2, True): (228, 12.0), (2, False): (686, 18.5), (4, False): (466, 23.5)}


@dataclass(frozen=True)
class Run:
    """One reduction. `own`: seconds of processor time between an answer and the next question.

    `seconds`: of its queries, if each costs what the model says.
    """

    result: Result
    culprits: int
    bound: float
    own: list[float]
    seconds: float

    @property
    def extra(self) -> int:
        """The number of statements left that are not culprits."""
        return self.result.statements_after - self.culprits


class Timed:
    """An oracle that measures the time between its answers and the next questions, and counts what they would cost."""

    def __init__(self, oracle: Synthetic, cost: tuple[float, float] = (0.01, 0.0)) -> None:
        self.seconds, self._cost = 0.0, cost
        self.jobs, self.record, self.fake_valid = oracle.jobs, oracle.record, oracle.fake_valid
        self._oracle = oracle
        self._answered: float | None = None
        self.own: list[float] = []

    def check(self, programs: Sequence[Program]) -> Iterator[Answer]:
        if self._answered is not None:
            self.own.append(time.process_time() - self._answered)
        for program, answer in zip(programs, self._oracle.check(programs), strict=True):
            self._answered = time.process_time()
            cost = self._cost[0] + self._cost[1] * len(program.graph.statements)
            self.seconds += cost
            yield replace(answer, seconds=cost)


def run(
    program: Program,
    oracle: Synthetic,
    places: Sequence[int],
    cost: tuple[float, float] = (0.01, 0.0),
    hints: Sequence[str] = (),
) -> Run:
    """Reduce a program with the culprits at `places`."""
    count, culprits = len(program.graph.statements), len(places)
    gap = (places[-1] - places[0]) / (culprits - 1) if culprits > 1 else 1
    timed = Timed(oracle, cost)
    result = minify(program, timed, hints=hints)
    bound = 2 * math.log2(count) + culprits * (2 * math.log2(gap) + 1)
    return Run(result, culprits, bound, timed.own, timed.seconds)


def planted(places: Sequence[int]) -> dict[int, str]:
    return {at: f"bug{number}" for number, at in enumerate(places)}


def synthetic(count: int, culprits: int, *, path: bool, seed: int, jobs: int) -> Run:
    """A chain with the culprits on it, or a random graph with culprits anywhere."""
    places = sorted(random.Random(f"{seed} {count} {culprits}").sample(range(count), culprits))
    program = build(count, planted(places), seed, chain=path)
    return run(program, Synthetic(list(planted(places).values()), path=path, jobs=jobs), places)


def on_random_graph(culprits: int, *, path: bool, seed: int, jobs: int) -> Run:
    places = _places(build(LARGE, {}, seed), culprits, path, random.Random(seed))
    program = build(LARGE, planted(places), seed)
    return run(program, Synthetic(list(planted(places).values()), path=path, jobs=jobs), places)


def on_transformer(culprits: int, *, path: bool, seed: int, jobs: int) -> Run:
    places = _places(transformer(LARGE, {})[0], culprits, path, random.Random(seed))
    program, shapes = transformer(LARGE, planted(places))
    return run(program, Shaped(shapes, list(planted(places).values()), path=path, jobs=jobs), places)


def _places(program: Program, culprits: int, path: bool, rng: random.Random) -> list[int]:
    """Random statements; with `path`, each one reads the one before."""
    base = Base(program)
    everything = range(len(base.statements))
    if not path:
        return sorted(rng.sample(everything, culprits))
    while True:
        places = [rng.choice(everything)]
        while len(places) < culprits and (further := _made_from(base, places[-1])):
            places.append(rng.choice(further))
        if len(places) == culprits:
            return places


def _made_from(base: Base, start: int) -> list[int]:
    reached = {start}
    for at in range(start + 1, len(base.statements)):
        if any(base.index.get(name) in reached for name in base.reads[at]):
            reached.add(at)
    return sorted(reached - {start})


def print_growth(sizes: Sequence[int], options: argparse.Namespace) -> None:
    heads = [f"k = {culprits}" for culprits in CULPRITS]
    print("| culprits | n |", " | ".join(heads), "| extra statements | own ms a query: median | mean | max |")
    print("|---" * (len(CULPRITS) + 6) + "|")
    for path in (True, False):
        for count in sizes:
            cells, own, extra = [], [], 0
            for culprits in CULPRITS:
                runs = [
                    synthetic(count, culprits, path=path, seed=options.seed + at, jobs=options.jobs)
                    for at in range(options.runs)
                ]
                queries, bound = mean(run.result.queries for run in runs), mean(run.bound for run in runs)
                cells.append(f"{queries:.0f} ({bound:.0f})")
                own += [1e3 * seconds for run in runs for seconds in run.own]
                extra += sum(run.extra for run in runs)
            where = "on a chain" if path else "anywhere"
            times = f"{median(own):.2f} | {mean(own):.2f} | {max(own):.0f}"
            print(f"| {where} | {count} | {' | '.join(cells)} | {extra} | {times} |", flush=True)


def print_large(options: argparse.Namespace) -> None:
    left = f"left after {EARLY} | in the end"
    print(f"| graph of {LARGE} statements | culprits | queries: mean | max | {left} | PyTorch |")
    print("|---" * 7 + "|")
    graphs: dict[str, Callable[..., Run]] = {"random, one shape": on_random_graph, "transformer": on_transformer}
    for name, make in graphs.items():
        for (culprits, path), (queries, left) in PYTORCH.items():
            runs = [
                make(culprits, path=path, seed=options.seed + at, jobs=options.jobs) for at in range(5 * options.runs)
            ]
            made = [run.result.queries for run in runs]
            early, late = mean(map(_left_early, runs)), mean(run.result.statements_after for run in runs)
            ours = f"{mean(made):.0f} | {max(made)} | {early:.1f} | {late:.1f}"
            where = f"{culprits}, {'on a path' if path else 'anywhere'}"
            print(f"| {name} | {where} | {ours} | {queries} queries, {left} left |", flush=True)


def print_seconds(options: argparse.Namespace) -> None:
    """What the queries cost in all, with and without a hint at the first culprit."""
    print(f"| statements | culprits | {' | '.join(f'{name}: queries, seconds' for name in COSTS)} |")
    print("|---" * (2 + len(COSTS)) + "|")
    for count in STEPS:
        for culprits, path, hinted in ((1, False, True), *((*key, False) for key in PYTORCH)):
            cells = []
            for cost in COSTS.values():
                runs = [
                    _costing(count, culprits, cost, path=path, hinted=hinted, seed=options.seed + at)
                    for at in range(5 * options.runs)
                ]
                queries, seconds = mean(run.result.queries for run in runs), mean(run.seconds for run in runs)
                cells.append(f"{queries:.0f}, {seconds:.0f}")
            where = "named" if hinted else "on a path" if path else "anywhere"
            print(f"| {count} | {culprits}, {where} | {' | '.join(cells)} |", flush=True)


def _costing(count: int, culprits: int, cost: tuple[float, float], *, path: bool, hinted: bool, seed: int) -> Run:
    places = _places(build(count, {}, seed), culprits, path, random.Random(seed))
    bugs = planted(places)
    hints = [f"torch.{bug}" for bug in bugs.values()] if hinted else []
    return run(build(count, bugs, seed), Synthetic(list(bugs.values()), path=path), places, cost, hints)


def print_fit(paths: Sequence[Path]) -> None:
    """The costs in events of real reductions."""
    print("| events | queries | seconds | empty | each statement |\n|---|---|---|---|---|")
    for path in paths:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        queries = [line for line in lines if line["kind"] == "query"]
        costs = Costs()
        for line in queries:
            costs.learn(line["size"], line["seconds"], fails=False)
        empty, one = costs.seconds(0), costs.seconds(1)
        total = sum(line["seconds"] for line in queries)
        print(f"| {path.parent.name}/{path.name} | {len(queries)} | {total:.0f} | {empty:.2f} | {one - empty:.3f} |")


def _left_early(run: Run) -> int:
    """The number of statements left after `EARLY` queries."""
    result = run.result
    return min(
        (accepted.statements for accepted in result.history if accepted.queries <= EARLY),
        default=result.statements_before,
    )


def main() -> None:
    """Print the tables, and the time to analyse the largest graph."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=int, default=4, help="graphs for each cell (five times as many in table two)")
    parser.add_argument("--jobs", type=int, default=1, help="programs that the oracle judges at a time")
    parser.add_argument("--quick", action="store_true", help="up to 300 statements only")
    parser.add_argument("--fit", nargs="+", type=Path, metavar="EVENTS", help="fit the costs to events of reductions")
    options = parser.parse_args()
    if options.fit:
        print_fit(options.fit)
        return
    sizes = [size for size in SIZES if size <= 300 or not options.quick]
    print_growth(sizes, options)
    print()
    print_large(options)
    print()
    print_seconds(options)
    program = build(sizes[-1], {})
    started = time.process_time()
    Base(program)
    print(f"\nBase(program) for {sizes[-1]} statements: {1e3 * (time.process_time() - started):.0f} ms")


if __name__ == "__main__":
    main()
