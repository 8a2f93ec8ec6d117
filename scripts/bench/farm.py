"""A farm of many cases over many builds, with simulated verdicts: how long status and report take; how well it groups.

python scripts/bench/farm.py --cases 1000 --builds 300
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from repro_kit.commands.farm.place import FarmPlace
from repro_kit.commands.farm.status import judge_all
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, Signature
from repro_kit.regressions.build import Build, Mark
from repro_kit.regressions.groups import CaseFacts, behave_alike, duplicate_of
from repro_kit.regressions.store import HISTORY, FarmCase
from repro_kit.regressions.unit import UnitResult

OPERATORS = [
    "relu",
    "index_put",
    "amax",
    "mean",
    "cat",
    "split",
    "conv2d",
    "softmax",
    "gather",
    "scatter",
    "sort",
    "cumsum",
    "bmm",
    "stack",
    "roll",
    "pad",
]
FILES = [
    "lowering.py",
    "ir.py",
    "scheduler.py",
    "codegen/cpp.py",
    "codegen/triton.py",
    "graph.py",
    "sizevars.py",
    "decomposition.py",
]
VERBS = [
    "store",
    "load",
    "fuse",
    "realize",
    "index",
    "simplify",
    "wrap",
    "lower",
    "emit",
    "plan",
    "split",
    "merge",
    "visit",
    "check",
    "bind",
]
WORDS = [
    "cannot",
    "determine",
    "truth",
    "value",
    "expected",
    "stride",
    "size",
    "tensor",
    "buffer",
    "layout",
    "symbolic",
    "shape",
    "divisible",
    "guard",
    "mutation",
    "alias",
    "input",
    "output",
    "view",
    "contiguous",
    "dtype",
    "promotion",
    "reduction",
    "kernel",
    "variable",
    "undefined",
    "missing",
    "argument",
    "invalid",
    "constant",
    "range",
    "index",
    "bounds",
    "negative",
    "device",
    "stream",
    "graph",
    "node",
    "unsupported",
    "operator",
]
ERRORS = ["TypeError", "AssertionError", "RuntimeError", "KeyError", "IndexError", "NotImplementedError", "ValueError"]
PREFIXES = ("", "", "InductorError", "BackendCompilerFailed")


def signatures(count: int, dice: random.Random) -> list[CaseFacts]:
    """Distinct failures. A third differ from an earlier one in one part only: as siblings in one compiler do."""
    facts: dict[CaseFacts, None] = {}
    while len(facts) < count:
        frames = tuple(f"{dice.choice(FILES)}:{dice.choice(VERBS)}_{dice.choice(OPERATORS)}" for _ in range(3))
        message = " ".join(dice.sample(WORDS, dice.randint(4, 9)))
        op = dice.choice([*(f"aten.{name}.default" for name in OPERATORS), None, None])
        exceptions = tuple(filter(None, (dice.choice(PREFIXES), dice.choice(ERRORS))))
        kind = dice.choice([Kind.COMPILE_ERROR, Kind.COMPILE_ERROR, Kind.RUNTIME_ERROR, Kind.DYNAMO_ERROR])
        signature = Signature(kind, exceptions, message, frames, op=op)
        sibling = dice.choice(list(facts)).signature if facts and dice.random() < 1 / 3 else None
        if sibling is not None:
            parts = [{"message": message}, {"frames": frames}, {"frames": (frames[0], *sibling.frames[1:])}]
            parts += [{"op": op}] if op and sibling.op else []
            signature = replace(sibling, **dice.choice(parts))
        facts[CaseFacts(signature)] = None
    return list(facts)


def seen_again(facts: CaseFacts, dice: random.Random) -> CaseFacts:
    """The same bug from another program or version: half look the same, the others differ in a detail or two."""
    signature = facts.signature
    assert signature is not None
    words = signature.message.split()
    changes = [
        lambda: replace(signature, message=" ".join([*words, dice.choice(WORDS)])),
        lambda: replace(signature, message=" ".join(words[:-1])),
        lambda: replace(signature, frames=(*signature.frames[:2], f"{dice.choice(FILES)}:{dice.choice(VERBS)}")),
        lambda: replace(signature, op=None),
        lambda: replace(signature, exceptions=("BackendCompilerFailed", signature.exceptions[-1])),
    ]
    if dice.random() < 0.5:
        return facts
    signature = dice.choice(changes)()
    if dice.random() < 0.3:
        words = signature.message.split()
        signature = dice.choice(changes)()
    return replace(facts, signature=signature)


def grouping(count: int, dice: random.Random) -> None:
    """Add distinct failures, then each once more, and count the right answers, with the behaviour over builds."""
    builds = [f"releases 2.{minor}" for minor in range(6, 16)]
    first = signatures(count, dice)
    fixed = [dice.randint(1, len(builds) - 1) for _ in first]
    earlier: dict[str, CaseFacts] = {}
    misses, behaved = [], 0
    for number, facts in enumerate([*first, *(seen_again(facts, dice) for facts in first)]):
        bug = number % count
        expected = str(bug) if number >= count else None
        best = duplicate_of(facts, earlier)
        name = best[0] if best else None
        if best is not None and not best[1].same:
            marks = [{build: Mark.BAD if at < fixed[each] else Mark.GOOD for at, build in enumerate(builds)}
                     for each in (bug, int(best[0]))]  # fmt: skip
            name = best[0] if behave_alike(*marks) else None
            behaved += name is not None
        if name != expected:
            misses.append(f"{number} should be {expected}, is {name}: {best[1].why if best else 'nothing is similar'}")
        if number < count:
            earlier[str(number)] = facts
    right = 2 * count - len(misses)
    print(
        f"grouping: {right} of {2 * count} right ({right / (2 * count):.1%}); {behaved} by their behaviour over builds"
    )
    print("\n".join(f"  miss: {miss}" for miss in misses))


def units(cases: Sequence[str], builds: Sequence[str], dice: random.Random) -> Iterator[UnitResult]:
    """Verdicts of cases of which some are fixed somewhere, some come back, some come and go."""
    for case in cases:
        fixed, back = dice.randrange(2 * len(builds)), dice.randrange(8 * len(builds))
        rate = dice.choice([1.0] * 8 + [0.3, 0.7])
        for at, build in enumerate(builds):
            if dice.random() < 0.01:
                outcome, failed, passed = RunOutcome.CANNOT_TELL, 0, 0
            else:
                fails = (at < fixed or (at > back > fixed)) and dice.random() < rate
                outcome = RunOutcome.FAILS_ALIKE if fails else RunOutcome.PASSES
                failed, passed = int(fails), 0 if fails else 3
            yield UnitResult(
                build, outcome, failed, passed, "", 4.0, 0, "2026-01-01T00:00:00", case=case, line="nightly cpu"
            )


def fill(place: FarmPlace, cases: int, builds: int, dice: random.Random) -> None:
    """Write a farm with simulated verdicts, and judge it."""
    facts = signatures(cases, dice)
    ids = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(cases)]
    days = [f"2.{10 + at // 60}.0.dev2025{1 + at % 300 // 28:02}{1 + at % 28:02}" for at in range(builds)]
    with place.writing(create=True) as store:
        with store.writing():
            for number, (id, fact) in enumerate(zip(ids, facts, strict=True)):
                store.add(FarmCase(id, f"case-{number}", "bench", "2026-01-01T00:00:00", fact, since="2026-01-01"))
            store.list_builds("nightly cpu", "--nightly cpu", [Build(day, day) for day in days])
        started = time.process_time()
        with store.writing():
            store.record(units(ids, list(dict.fromkeys(days)), dice))
        print(f"taking up {cases * builds} units: {time.process_time() - started:.1f} CPU s")
        started = time.process_time()
        changes = judge_all(place, store)
        print(f"judging {cases} cases: {time.process_time() - started:.1f} CPU s, {len(changes)} changes")


def timed(words: Sequence[str], place: FarmPlace, repeat: int) -> None:
    """Run a command of the farm in processes of their own: the fewest seconds, and the peak memory."""
    command = [sys.executable, "-m", "repro_kit", "farm", *words, "--farm", str(place.directory), "-q"]
    runs = []
    for _ in range(repeat):
        started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, capture_output=True, text=True, check=True)
        seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        runs.append((seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    seconds, cpu = min(runs)
    slowest = max(runs)[0]
    peak = after.ru_maxrss / 1024
    seen = f"{cpu:.2f} CPU s; the slowest of {repeat}: {slowest:.2f} s; load {os.getloadavg()[0]:.1f}"
    print(f"farm {words[0]}: {seconds:.2f} s ({seen}), at most {peak:.0f} MB so far")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--builds", type=int, default=300)
    parser.add_argument("--distinct", type=int, default=200)
    parser.add_argument("--repeat", type=int, default=5, help="of status and report; the fastest counts")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    dice = random.Random(options.seed)
    started = time.process_time()
    grouping(options.distinct, dice)
    print(f"grouping {2 * options.distinct} cases: {time.process_time() - started:.2f} CPU s")
    with tempfile.TemporaryDirectory() as directory:
        place = FarmPlace(Path(directory) / "farm")
        fill(place, options.cases, options.builds, dice)
        print(f"history: {(place.directory / HISTORY).stat().st_size / 2**20:.0f} MB")
        timed(["status"], place, options.repeat)
        timed(["report"], place, options.repeat)
        site = place.directory / "report"
        print(f"site: {sum(path.stat().st_size for path in site.rglob('*') if path.is_file()) / 2**20:.0f} MB")


if __name__ == "__main__":
    main()
