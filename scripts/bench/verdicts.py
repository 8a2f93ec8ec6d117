"""Measure the verdicts on results: of healthy models in low precision, and of models with one wrong operator.

    python scripts/bench/verdicts.py [--only WORDS] [--keep DIR]
    python scripts/bench/verdicts.py --planted 5 [--backward]
    python scripts/bench/verdicts.py --graphs
    python scripts/bench/verdicts.py --raising

prints what docs/benchmarks.md summarizes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from planted import across_graphs, planted
from samples.verdict_cases import HEALTHY, RAISING


def collected(directory: Path, name: str, script: str, *options: str) -> dict[str, Any]:
    """Run `repro-kit collect` on `script` in a directory of its own; the summary, and the seconds it took."""
    home = directory / "".join(letter if letter.isalnum() else "_" for letter in name)
    home.mkdir(parents=True)
    (home / "script.py").write_text(script, encoding="utf-8")
    words = [
        sys.executable,
        "-m",
        "repro_kit",
        "collect",
        "--yes",
        "--trace",
        "no",
        "--include-source",
        "--json",
        *options,
        "script.py",
    ]
    started = time.monotonic()
    ran = subprocess.run(words, cwd=home, capture_output=True, text=True, check=False)
    (home / "stderr.txt").write_text(ran.stderr, encoding="utf-8")
    summary: dict[str, Any] = json.loads(ran.stdout)
    return {**summary, "took": time.monotonic() - started}


def healthy(directory: Path, only: str) -> None:
    """Print the verdict on every healthy model: each must end with exit code 3."""
    print("| healthy model | exit | results beyond the usual tolerance | largest errors: eager, compiled | seconds |")
    print("|---|---|---|---|---|")
    cried = 0
    for name, script in HEALTHY.items():
        if only not in name:
            continue
        summary = collected(directory, name, script, "--check", "accuracy")
        rows = (summary["rounding"] or {}).get("errors", [])
        known = [row for row in rows if row["eager"] is not None]
        worst = max(known, key=lambda row: row["gap"], default=None)
        errors = f"{worst['eager']:.2g}, {worst['compiled']:.2g}" if worst else ""
        cried += summary["exit"] != 3
        print(f"| {name} | {summary['exit']} | {len(rows)} | {errors} | {summary['took']:.0f} |", flush=True)
    print(f"\n{cried} healthy models were called bugs.")


def raising(directory: Path, only: str) -> None:
    """Print the verdict on every script in which eager and the compiled program raise: each must end with code 3."""
    print("| invalid | exit | seconds |")
    print("|---|---|---|")
    cried = 0
    for name, script in RAISING.items():
        if only in name:
            summary = collected(directory, name, script, "--check", "validation")
            cried += summary["exit"] != 3
            print(f"| {name} | {summary['exit']} | {summary['took']:.0f} |", flush=True)
    print(f"\n{cried} scripts in which both raise were called bugs.")


def main() -> None:
    """Run the bench."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="WORDS", help="only the cases whose name contains WORDS")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the cases in this new directory")
    parser.add_argument("--planted", type=int, metavar="N", help="plant N wrong operators in each model instead")
    parser.add_argument("--backward", action="store_true", help="the gradients of the planted operators are wrong")
    parser.add_argument("--graphs", action="store_true", help="plant wrong operators in a script of several graphs")
    parser.add_argument("--raising", action="store_true", help="scripts in which eager and the compiled program raise")
    options = parser.parse_args()
    if options.planted:
        planted(options.planted, backward=options.backward)
        return
    if options.graphs:
        across_graphs()
        return
    with tempfile.TemporaryDirectory() as temporary:
        (raising if options.raising else healthy)(options.keep or Path(temporary), options.only)


if __name__ == "__main__":
    main()
