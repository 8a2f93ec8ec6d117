#!/usr/bin/env python3
"""Reading a trace and gathering all insights, against tlparse on the same file: CPU seconds, MB/s, peak memory.

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
    """What a process took: CPU seconds (its children's with it) and peak memory in MB."""

    seconds: float
    peak: float


def record(place: Path, base: Path | None) -> list[Path]:
    """The logs to repeat: those of `base`, or of a fresh run."""
    if base is None:
        base = place / "base"
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("TORCH", "TRITON"))}
        env = {**clean, "TORCH_TRACE": str(base / "train"), "TORCHINDUCTOR_CACHE_DIR": str(place / "cache")}
        subprocess.run([sys.executable, "-c", TRAIN], env=env, capture_output=True, check=True)
        subprocess.run([sys.executable, str(CASES), "--each", str(base)], env=env, capture_output=True, check=True)
    return sorted(base.rglob("*.log"))


def repeat(logs: Sequence[Path], target: Path, size: int) -> None:
    """Write the records of `logs` to `target` over and over, up to `size` bytes; every round has frames of its own."""
    texts = [log.read_bytes() for log in logs]
    frames = 0
    with target.open("wb") as file:
        while file.tell() < size:
            for text in texts:
                highest = 0

                def number(found: re.Match[bytes], offset: int = frames) -> bytes:
                    nonlocal highest
                    highest = max(highest, int(found[2]))
                    return found[1] + str(int(found[2]) + offset).encode()

                for line in text.splitlines(keepends=True):
                    file.write(line if line.startswith(b"\t") else _FRAME.sub(number, line))
                frames += highest + 1


def cost(command: Sequence[str]) -> Cost:
    """What `command` took; it fails when the command does."""
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
        place = Path(name)
        logs = record(place, options.base)
        for size in options.sizes:
            log = place / "big.log"
            repeat(logs, log, size * 10**6)
            ours = cost([sys.executable, "-c", GATHER, str(log)])
            theirs = cost([tlparse, str(log), "-o", f"{place}/out", "--no-browser", "--overwrite"]) if tlparse else None
            print(f"{size:>5} MB {shown(ours, size):>22} {shown(theirs, size):>26}", flush=True)
            shutil.rmtree(place / "out", ignore_errors=True)


def shown(it: Cost | None, size: int) -> str:
    return f"{it.seconds:.1f} s {size / it.seconds:.0f} MB/s {it.peak:.0f} MB" if it else "-"


if __name__ == "__main__":
    main()
