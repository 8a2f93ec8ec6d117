"""How much faster two workers run a farm than one: threads, submitit's local executor, and Dask.

python scripts/bench/farm_workers.py --cases 12 --seconds 2

The cases only sleep, so that the workers compete for nothing: what is measured is the farm and the executor.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

EXECUTORS = {"local": "local", "submitit": "submitit:cluster=local"}


def made_farm(directory: Path, cases: int, seconds: float) -> Path:
    """A farm of cases that sleep, and fail each in its own way."""
    targets = []
    for number in range(cases):
        target = directory / f"case{number}"
        target.mkdir(parents=True)
        text = f"import time\ntime.sleep({seconds})\nraise ValueError('failure of number {number}')\n"
        (target / "repro.py").write_text(text)
        targets.append(str(target))
    repro_kit("add", *targets, "--farm", str(directory / "farm"), "-q")
    return directory / "farm"


def repro_kit(*words: str) -> str:
    command = [sys.executable, "-m", "repro_kit", "farm", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@contextmanager
def dask_cluster(workers: int) -> Iterator[str]:
    from distributed import LocalCluster

    with LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        yield f"dask://{cluster.scheduler_address.rpartition('/')[2]}"


def timed(name: str, executor: str, workers: int | None, options: argparse.Namespace) -> float:
    """Run a new farm, and print how long that took."""
    with tempfile.TemporaryDirectory() as directory:
        farm = made_farm(Path(directory), options.cases, options.seconds)
        words = ["run", "--yes", "--json", "--farm", str(farm), "--on", sys.executable, "--package", "click"]
        words += ["--executor", executor, *(["--workers", str(workers)] if workers else [])]
        started = time.perf_counter()
        units = json.loads(repro_kit(*words))["units"]
        seconds = time.perf_counter() - started
    print(f"{name:<22} {units} units in {seconds:.1f} s", flush=True)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one run; a unit has five")
    parser.add_argument("--executor", choices=["local", "submitit", "dask"], action="append")
    options = parser.parse_args()
    for name in options.executor or ["local", "submitit", "dask"]:
        seconds = []
        for workers in (1, 2):
            with dask_cluster(workers) if name == "dask" else nullcontext(EXECUTORS.get(name, "")) as executor:
                count = None if name == "dask" else workers
                seconds.append(timed(f"{name}, {workers} at once", executor, count, options))
        print(f"  {seconds[0] / seconds[1]:.2f} times as fast")


if __name__ == "__main__":
    main()
