#!/usr/bin/env python3
"""Measure what recording graphs adds to the observed run: a training script under the probe, with and without.

    .venv/bin/python scripts/bench/recording.py [--steps N] [--rounds N]

Both sides run the same script like `repro-kit observe` does: under the probe, with a structured trace. One side also
records the graphs, as `observe` does. The two take turns. Prints the CPU seconds of the training steps after the
compilation, of the whole process, and the size of what was recorded. The script trains a small transformer.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Literal

from repro_kit.case.case import Case, Subject
from repro_kit.subject.script_run import SubjectRun, run_subject

SCRIPT = """
import sys, time
sys.path.insert(0, {bench!r})
import torch
from watch import Trainer
torch.set_num_threads(1)
trainer = Trainer()
trainer.steps(5)
began = time.process_time()
trainer.steps({steps})
print("CPU", time.process_time() - began, time.process_time())
"""

Side = Literal["observe", "capture"]  # the modes of the probe: without and with recording


def ran(case: Case, side: Side) -> tuple[float, float, int]:
    """CPU seconds of the steps and of the process, and the bytes of its findings."""
    directory = Path(tempfile.mkdtemp(dir=case.path))
    trace = directory / "trace"
    trace.mkdir()
    run_subject(case, SubjectRun(directory, why="bench", timeout=600, mode=side, env={"TORCH_TRACE": str(trace)}))
    output = (directory / "stdout.txt").read_text()
    times = re.search(r"CPU (\S+) (\S+)", output)
    if times is None:
        sys.exit(f"The script did not end: {output}{(directory / 'stderr.txt').read_text()}")
    size = sum(path.stat().st_size for path in (directory / "probe").rglob("*") if path.is_file())
    return float(times[1]), float(times[2]), size


def main() -> None:
    """Let the two sides take turns, and print their medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory, "train.py")
        script.write_text(SCRIPT.format(bench=str(Path(__file__).parent), steps=given.steps))
        case = Case.create(Path(directory, "a.repro"), Subject("script", (str(script),), directory, sys.executable), "")
        runs: dict[Side, list[tuple[float, float, int]]] = {"observe": [], "capture": []}
        for at in range(given.rounds):
            sides: tuple[Side, ...] = ("observe", "capture")
            for side in sides if at % 2 else reversed(sides):
                runs[side].append(ran(case, side))
    for at, what in enumerate((f"{given.steps} training steps", "the whole process")):
        without, recorded = ([run[at] for run in runs[side]] for side in ("observe", "capture"))
        paired = statistics.median(b / a for a, b in zip(without, recorded, strict=True))
        print(
            f"{what}: CPU seconds, median of {given.rounds}: observed {statistics.median(without):.2f}, with recording "
            f"{statistics.median(recorded):.2f}; {100 * (paired - 1):+.1f} % in pairs (median)"
        )
    sizes = [max(run[2] for run in runs[side]) / 1e6 for side in ("observe", "capture")]
    print(f"findings on disk: {sizes[0]:.2f} MB, with recording {sizes[1]:.2f} MB")


if __name__ == "__main__":
    main()
