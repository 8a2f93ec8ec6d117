#!/usr/bin/env python3
"""Time an ablation's full matrix against running each of its cells by hand, one after the other.

    python scripts/bench/ablate.py [SCRIPT …] [--jobs N] [--skip program|script|hand]

The matrix is 4 backends × dynamic left open, on and off, and Inductor's 4 modes: 16 cells. By hand, each is a fresh
`python script.py` with that backend, dynamic setting or mode, and empty caches. `repro-kit ablate --preset full` is
timed on the captured program and on the script, with the cells that no run is needed for (on a CPU two of the modes
change nothing) and those that it adds (fullgraph, grad mode, graph caches, contrasts). Observing, capturing and
narrowing are not timed.
In brackets: CPU seconds of all processes, which other work on the machine changes little.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure import Ended, measured
from repro_kit.case.case import Case
from repro_kit.diagnosis.cell import Ablation
from repro_kit.diagnosis.report import counts
from repro_kit.probe.repro_probe.protocol.orders import Override
from repro_kit.recipe import LADDER
from repro_kit.runner.subject_start import probe_environment
from repro_kit.stages.ablate.matrix import MODES

#: The cells of the ablation that PyTorch's documentation describes: the backends, with dynamic left open, on and off.
LADDER_CELLS: tuple[Override, ...] = tuple(
    {"backend": backend, "dynamic": dynamic} for dynamic in (None, True, False) for backend in LADDER
)
MODE_CELLS: tuple[Override, ...] = tuple({"backend": "inductor", "mode": mode} for mode in MODES)
EXAMPLES = Path(__file__).parents[2] / "examples"
DEFAULT = (EXAMPLES / "inductor_cpp_compile_error.py", EXAMPLES / "inductor_accuracy.py")
PATIENCE = 600.0  # seconds for one run of a script
_TOOL = (sys.executable, "-m", "repro_kit")


@dataclass(frozen=True)
class Cost:
    """Wall and CPU seconds, of descendants too."""

    seconds: float
    cpu: float
    note: str = ""

    def __str__(self) -> str:
        return f"{self.seconds:.0f} s [{self.cpu:.0f}]" + (f" {self.note}" if self.note else "")

    def over(self, other: Cost) -> str:
        """Wall and CPU seconds as shares of the other's."""
        return f"{self.seconds / other.seconds:.2f} [{self.cpu / other.cpu:.2f}]"


def timed(command: Sequence[str | Path], directory: Path, env: Mapping[str, str]) -> Cost:
    """Run the command to its end and measure it; its exit status does not matter."""
    ended = measured(command, directory, env, 30 * PATIENCE)
    return Cost(ended.seconds, ended.cpu)


def by_hand(script: Path, directory: Path, cells: Sequence[Override], limit: float = 30 * PATIENCE) -> Cost:
    """Each cell in an interpreter of its own, with empty caches; at the limit the rest is left out."""
    costs: list[Ended] = []
    for cell in cells:
        left = limit - sum(cost.seconds for cost in costs)
        if left <= 0:
            break
        caches = directory / "caches"
        env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(caches)}
        ordered = probe_environment(env, "override", directory / "probe", min(left, PATIENCE), cell)
        costs.append(measured([sys.executable, script], directory, ordered, left))
        shutil.rmtree(caches, ignore_errors=True)
    stopped = "" if len(costs) == len(cells) and costs[-1].code is not None else f", stopped after {limit:.0f} s"
    return Cost(sum(cost.seconds for cost in costs), sum(cost.cpu for cost in costs), f"{len(costs)} runs{stopped}")


def with_repro_kit(case: Path, on: str, jobs: int, directory: Path) -> Cost:
    """The full matrix of a case without any earlier cells."""
    shutil.rmtree(case / "ablate", ignore_errors=True)
    command = [*_TOOL, "ablate", "--no-narrow", "--preset", "full", "--on", on, "--jobs", str(jobs), str(case)]
    cost = timed(command, directory, os.environ)
    ablation = Case.open(case).read("ablation.json", Ablation)
    return Cost(cost.seconds, cost.cpu, f"{counts(ablation.cells)}; {ablation.layer}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scripts", nargs="*", type=Path, default=DEFAULT, metavar="SCRIPT")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--skip", choices=("program", "script", "hand"), action="append", default=[])
    asked = parser.parse_args()
    for script in asked.scripts:
        with tempfile.TemporaryDirectory() as directory:
            work = Path(directory)
            case = work / "case.repro"
            timed(
                [*_TOOL, "collect", "--until", "capture", "-o", case, "--python", sys.executable, script.absolute()],
                work,
                os.environ,
            )
            print(f"{script.name}, {asked.jobs} jobs", flush=True)
            hand = None if "hand" in asked.skip else by_hand(script.absolute(), work, LADDER_CELLS + MODE_CELLS)
            if hand:
                print(f"  by hand     {hand}", flush=True)
            for on in ("program", "script"):
                if on in asked.skip:
                    continue
                cost = with_repro_kit(case, on, asked.jobs, work)
                print(f"  on {on:<8} {cost}" + (f": {cost.over(hand)} of by hand" if hand else ""), flush=True)


if __name__ == "__main__":
    main()
