#!/usr/bin/env python3
"""Time reading a trace and gathering all insights, against tlparse on the same file: CPU seconds, MB/s, peak memory.

    python scripts/bench/trace.py [MEGABYTES]…          default: 10 100

Records real traces (the programs of tests/trace/insight_cases.py, and a train step that Inductor compiles), repeats
their records with frame ids that go on counting, up to the sizes asked for, and runs both on each file in processes of
their own. Needs the dependency group `bench` (tlparse); without tlparse its column stays empty.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "trace" / "insight_cases.py"
TRAIN = """
import torch
model = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
step = torch.compile(lambda x: model(x).sum())
for length in (4, 6):
    step(torch.randn(2, length, 32)).backward()
"""
GATHER = "import sys; from repro_kit.trace.insights import gather; print(len(gather(sys.argv[1]).overview.compiles))"
_FRAME = re.compile(rb'("frame_id": |"compile_id": "(?=\d+/\d+"))(\d+)')


@dataclass(frozen=True)
class Cost:
    """The cost of a process: CPU seconds (children included) and peak memory in MB."""

    seconds: float
    peak: float


def record(directory: Path, base: Path | None) -> list[Path]:
    """The logs to repeat: those of `base`, or of a fresh run."""
    if base is None:
        base = directory / "base"
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("TORCH", "TRITON"))}
        env = {**clean, "TORCH_TRACE": str(base / "train"), "TORCHINDUCTOR_CACHE_DIR": str(directory / "cache")}
        subprocess.run([sys.executable, "-c", TRAIN], env=env, capture_output=True, check=True)
        subprocess.run([sys.executable, str(CASES), "--each", str(base)], env=env, capture_output=True, check=True)
    return sorted(base.rglob("*.log"))


def repeat(logs: Sequence[Path], target: Path, size: int) -> None:
    """Write the records of `logs` to `target` again and again, up to `size` bytes; each round has its own frames."""
    texts = [log.read_bytes() for log in logs]
    frames = 0
    with target.open("wb") as file:
        while file.tell() < size:
            for text in texts:
                highest = 0

                def number(match: re.Match[bytes], offset: int = frames) -> bytes:
                    nonlocal highest
                    highest = max(highest, int(match[2]))
                    return match[1] + str(int(match[2]) + offset).encode()

                for line in text.splitlines(keepends=True):
                    file.write(line if line.startswith(b"\t") else _FRAME.sub(number, line))
                frames += highest + 1


def cost(command: Sequence[str]) -> Cost:
    """The cost of `command`. Exits when the command fails."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr
    error = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {error.decode()[-2000:]}")
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", type=int, default=[10, 100], metavar="MEGABYTES")
    parser.add_argument("--base", type=Path, help="directory of logs to repeat, instead of a fresh run's")
    options = parser.parse_args()
    tlparse = shutil.which("tlparse") or shutil.which("tlparse", path=str(Path(sys.executable).parent))
    print(f"{'log':>8} {'repro-kit':>22} {'tlparse':>26}")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        logs = record(work, options.base)
        for size in options.sizes:
            log = work / "big.log"
            repeat(logs, log, size * 10**6)
            ours = cost([sys.executable, "-c", GATHER, str(log)])
            theirs = cost([tlparse, str(log), "-o", f"{work}/out", "--no-browser", "--overwrite"]) if tlparse else None
            print(f"{size:>5} MB {shown(ours, size):>22} {shown(theirs, size):>26}", flush=True)
            shutil.rmtree(work / "out", ignore_errors=True)


def shown(cost: Cost | None, size: int) -> str:
    return f"{cost.seconds:.1f} s {size / cost.seconds:.0f} MB/s {cost.peak:.0f} MB" if cost else "-"


if __name__ == "__main__":
    main()
