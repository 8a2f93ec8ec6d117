#!/usr/bin/env python3
"""Time the narrowing chain against PyTorch's CompilerBisector, on a script with a planted lowering bug.

    python scripts/bench/narrow.py [SCRIPT] [--jobs N]

CompilerBisector runs the whole script anew for every question, `python -m torch._inductor.compiler_bisector run`; it
deletes the cache directory of Inductor, so that it gets one of its own. repro-kit is timed from nothing (observe,
capture, the ladder, subsystem and operator); of that, the ablation alone is shown too.
In brackets: CPU seconds of all processes, which other work on the machine changes little.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
from pathlib import Path

from ablate import timed
from repro_kit.case.case import Case
from repro_kit.diagnosis.cell import Ablation
from repro_kit.diagnosis.evidence import in_one_line

SCRIPT = Path(__file__).parent / "cases" / "lowering.py"
_TOOL = (sys.executable, "-m", "repro_kit")


def bisector(script: Path, directory: Path) -> str:
    """Run CompilerBisector from the first backend to the operator."""
    env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(directory / "cache")}
    count = directory / "runs.txt"
    counted = f"echo >> {shlex.quote(str(count))}; exec {shlex.join([sys.executable, str(script)])}"
    cost = timed(
        [sys.executable, "-m", "torch._inductor.compiler_bisector", "run", "sh", "-c", counted], directory, env
    )
    last_line = (directory / "stdout.txt").read_text(errors="replace").strip().rsplit("\n", 1)[-1]
    return f"{cost}, {len(count.read_text().splitlines())} runs of the script: {last_line}"


def with_repro_kit(script: Path, jobs: int, directory: Path) -> list[str]:
    """Make a new case, and narrow it."""
    case = directory / "case.repro"
    first = timed(
        [*_TOOL, "collect", "--until", "capture", "-o", case, "--python", sys.executable, script], directory, os.environ
    )
    options = ["--preset", "quick", "--narrow", "subsystem,op", "--no-workarounds", "--jobs", str(jobs)]
    rest = timed([*_TOOL, "ablate", *options, case], directory, os.environ)
    chain = Case.open(case).read("ablation.json", Ablation).chain
    named = f"{chain.runs} runs, {chain.seconds:.0f} s of it narrowing: {in_one_line(chain)}" if chain else "no chain"
    total = f"{first.seconds + rest.seconds:.0f} s [{first.cpu + rest.cpu:.0f}]"
    return [f"from nothing {total}", f"the ablation {rest}, {named}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("script", nargs="?", type=Path, default=SCRIPT)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    script = asked.script.absolute()
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        print(f"{script.name}, {asked.jobs} jobs", flush=True)
        for line in with_repro_kit(script, asked.jobs, work):
            print(f"  repro-kit         {line}", flush=True)
        print(f"  CompilerBisector  {bisector(script, work)}", flush=True)


if __name__ == "__main__":
    main()
