#!/usr/bin/env python3
"""Reduce the same failures with `repro-kit minify` and with PyTorch's own minifier, one after the other.

    python scripts/bench/minify_vs_pytorch.py [SCRIPT …] [--limit SECONDS]

Both start from a captured graph: the capture is not timed. PyTorch's minifier is run as its documentation says
(TORCHDYNAMO_REPRO_AFTER=aot, then the launcher that it leaves). Printed for each: queries, seconds, statements left,
and whether the result, run alone, still fails with the signature of the original.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from repro_kit.case import Case
from repro_kit.errors import ReproKitError
from repro_kit.model.classify import failure_from_text
from repro_kit.model.failure import Kind
from repro_kit.model.results import Reduction
from repro_kit.model.signature import Signature, Strength, signature_of
from repro_kit.program import size
from repro_kit.program.from_runnable import from_runnable

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
LARGE = Path(__file__).parent / "cases" / "large.py"
NAMES = ("inductor_cpp_compile_error", "inductor_runtime_error", "dynamic_shape_error", "inductor_accuracy")
DEFAULT = [*(EXAMPLES / f"{name}.py" for name in NAMES), LARGE]


@dataclass(frozen=True)
class Outcome:
    """What one minifier made of one case."""

    queries: int
    seconds: float
    statements: int | None
    same: bool
    note: str = ""


def with_repro_kit(script: Path, place: Path, jobs: int) -> tuple[Outcome, Signature, Kind]:
    """Collect up to the capture, then time `repro-kit minify`."""
    tool = [sys.executable, "-m", "repro_kit"]
    case_path = place / "case.repro"
    collect = [
        *tool,
        "collect",
        "--python",
        sys.executable,
        "--until",
        "capture",
        "--output",
        str(case_path),
        str(script),
    ]
    subprocess.run(collect, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    started = time.monotonic()
    subprocess.run([*tool, "minify", "--jobs", str(jobs), str(case_path)], check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - started
    case = Case.open(case_path)
    made = case.read("minify/minify.json", Reduction)
    signature = case.file.signature
    assert signature is not None
    return Outcome(made.queries, seconds, made.statements_after, made.verified), signature, signature.kind


def with_pytorch(script: Path, place: Path, original: Signature, kind: Kind, limit: float) -> Outcome:
    """Let torch dump its launcher, then time the launcher."""
    env = {
        **os.environ,
        "TORCHDYNAMO_REPRO_AFTER": "aot",
        "TORCHDYNAMO_REPRO_LEVEL": "4" if kind == Kind.ACCURACY else "2",
        "TORCH_COMPILE_DEBUG_DIR": str(place),
        "TORCHINDUCTOR_CACHE_DIR": str(place / "cache"),
    }
    subprocess.run([sys.executable, str(script)], cwd=place, env=env, capture_output=True, timeout=limit, check=False)
    launcher = next(iter(place.rglob("minifier_launcher.py")), None)
    if launcher is None:
        return Outcome(0, 0.0, None, False, "it left no launcher")
    for name in ("TORCHDYNAMO_REPRO_AFTER", "TORCHDYNAMO_REPRO_LEVEL"):
        env.pop(name)
    started = time.monotonic()
    note = ""
    try:
        subprocess.run(
            [sys.executable, launcher], cwd=launcher.parent, env=env, capture_output=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        note = f"stopped after {limit:.0f} s"
    seconds = time.monotonic() - started
    queries = len(list((launcher.parent / "isolate").glob("*.py")))
    result = launcher.parent / "repro.py"
    if not result.exists():
        return Outcome(queries, seconds, None, False, note or "no repro.py")
    return Outcome(queries, seconds, _statements(result), _fails_alike(result, env, original), note)


def _statements(path: Path) -> int | None:
    try:
        return size(from_runnable(path.read_text(encoding="utf-8")))
    except ReproKitError:
        return None


def _fails_alike(path: Path, env: dict[str, str], original: Signature) -> bool:
    done = subprocess.run(
        [sys.executable, str(path)], cwd=path.parent, env=env, capture_output=True, text=True, check=False
    )
    failure = failure_from_text(done.stderr) if done.returncode else None
    return failure is not None and original.matches(signature_of(failure), Strength.REBASED)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scripts", nargs="*", type=Path, default=DEFAULT)
    parser.add_argument("--limit", type=float, default=1800, help="seconds for PyTorch's minifier on one case")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    print("| case | minifier | queries | seconds | statements | same failure | note |\n|---|---|---|---|---|---|---|")
    for script in options.scripts:
        place = Path(tempfile.mkdtemp(prefix="bench-"))
        try:
            ours, signature, kind = with_repro_kit(script.resolve(), place, options.jobs)
            theirs = with_pytorch(script.resolve(), place, signature, kind, options.limit)
        finally:
            shutil.rmtree(place, ignore_errors=True)
        for name, outcome in (("repro-kit", ours), ("PyTorch", theirs)):
            row = (outcome.queries, f"{outcome.seconds:.0f}", outcome.statements, outcome.same, outcome.note)
            print(f"| {script.stem} | {name} | " + " | ".join(map(str, row)) + " |", flush=True)
        if theirs.statements is not None:  # without a result there is nothing to compare
            print(f"| {script.stem} | PyTorch / repro-kit | | {theirs.seconds / ours.seconds:.1f}× | | | |", flush=True)


if __name__ == "__main__":
    main()
