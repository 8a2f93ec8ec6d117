#!/usr/bin/env python3
"""Count the builds that a bisection judges, against ceil(log2 n) + 2, and measure its own seconds per step.

    python scripts/bench/bisection.py [--no-environments]

Prints two tables. The first one judges nothing real: every turning point of every range, and random builds of no use.
The second one installs small wheels (no dependencies) into real environments: what a step costs beside installing and
running the oracle.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import random
import statistics
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from math import ceil, log2
from pathlib import Path

from repro_kit.regressions.build import Mark
from repro_kit.regressions.search import JudgeNext, Question, next_step
from repro_kit.regressions.search_state import read_state

SIZES = (2, 10, 50, 100, 200, 400)
SHARES = (0.0, 0.1, 0.3)  # of builds that cannot be judged, spread over the range
CLUSTER = 0.1  # or one run of them, this share of the range
SEEDS = 5


def judged(count: int, turn: int, broken: Callable[[int], bool]) -> int:
    """The number of builds that are judged in a range of `count` builds to find where the failure begins."""
    question, marks = Question(count - 1), dict[int, Mark]()
    while isinstance(step := next_step(question, marks), JudgeNext):
        at = step.index
        marks[at] = Mark.SKIP if broken(at) else Mark.BAD if at >= turn else Mark.GOOD
    return len(marks)


def counts(count: int, share: float, *, cluster: bool = False) -> list[int]:
    """`judged` for every position of the first bad build."""
    judged_counts = []
    for turn in range(1, count):
        for seed in range(SEEDS if share else 1):
            chance = random.Random(f"{count} {turn} {seed}")
            inner = range(1, count - 1)
            size = round(share * len(inner))
            start = chance.randrange(1, max(count - 1 - size, 2))
            gone = set(range(start, start + size)) if cluster else set(chance.sample(inner, size))
            judged_counts.append(judged(count, turn, gone.__contains__))
    return judged_counts


def table() -> None:
    """Builds judged (mean and maximum), by the size of the range and the share of builds that cannot be judged."""
    heads = [*(f"{share:.0%} that cannot be judged" for share in SHARES), f"a run of {CLUSTER:.0%}"]
    print("| builds | ceil(log2 n)+2 | " + " | ".join(f"{head}: mean, most" for head in heads) + " |")
    print("|---|---|" + "---|" * len(heads))
    for count in SIZES:
        columns = [*(counts(count, share) for share in SHARES), counts(count, CLUSTER, cluster=True)]
        cells = [f"{statistics.mean(column):.1f}, {max(column)}" for column in columns]
        print(f"| {count} | {ceil(log2(count)) + 2} | " + " | ".join(cells) + " |")


def make_wheel(directory: Path, version: str, fails: bool) -> None:
    """A wheel of the package `frob`, which raises when it is broken."""
    info = f"frob-{version}.dist-info"
    files = {
        "frob/__init__.py": "raise RuntimeError('planted')\n" if fails else "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: frob\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    sums = {name: hashlib.sha256(text.encode()).digest() for name, text in files.items()}
    record = [
        f"{name},sha256={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}," for name, digest in sums.items()
    ]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""])
    with zipfile.ZipFile(directory / f"frob-{version}-py3-none-any.whl", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


def overhead(count: int) -> None:
    """The seconds that a real bisection over `count` wheels adds to installation and oracle, per step."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "dist").mkdir()
        for number in range(count):
            make_wheel(root / "dist", f"1.{number}", number >= count * 2 // 3)
        (root / "use.py").write_text("import frob\n")
        words = ["bisect", "use.py", "--package", "frob", "--wheels", "dist", "--good", "1.0", "-q"]
        words += ["--python", sys.executable, "--cache", str(root / "cache")]
        subprocess.run([sys.executable, "-m", "repro_kit", *words], cwd=root, check=True)
        state = read_state(root / "use.bisect")
        assert state is not None
    steps = state.judgements
    print(f"\n{count} wheels, {len(steps)} judged; seconds a step (median):\n")
    print("| install | oracle | beside both |")
    print("|---|---|---|")
    parts = ([getattr(step, f"{name}_seconds") for step in steps] for name in ("install", "oracle", "overhead"))
    print("| " + " | ".join(f"{statistics.median(part):.2f}" for part in parts) + " |")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-environments", action="store_true", help="only count")
    options = parser.parse_args()
    table()
    if not options.no_environments:
        overhead(60)


if __name__ == "__main__":
    main()
