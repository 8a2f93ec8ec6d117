#!/usr/bin/env python3
"""Reduce the same failures with `repro-kit minify` and with PyTorch's own minifier, one after the other.

    python scripts/bench/minify_vs_pytorch.py [SCRIPT …] [--limit SECONDS] [--jobs N] [--start-only]

Both start from a captured graph: the capture is not timed. PyTorch's minifier is run as its documentation says
(TORCHDYNAMO_REPRO_AFTER=aot, then the launcher that it leaves). Printed for each: queries, seconds, statements left,
whether the result, run as a script, fails with the signature of the original, and whether it still does when it is all
that is there: another directory, and the minifier's own gone. A minifier that is stopped at the limit counts as having
taken that long. In brackets: CPU seconds of all processes, which other work on the machine changes little. At the end:
the median ratios, and how many results hold what they promise. The note says when repro-kit was at PyTorch's size.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from measure import Ended, measured
from repro_kit.case.case import Case
from repro_kit.case.stage_results import Reduction
from repro_kit.errors import ReproKitError
from repro_kit.failure.classify import failure_from_signal, failure_from_text
from repro_kit.failure.failure import Failure
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import Signature, Strength, signature_of
from repro_kit.graph import size
from repro_kit.graph.reading.from_runnable import from_runnable

EXAMPLES = Path(__file__).parents[2] / "examples"
CASES = Path(__file__).parent / "cases"
SMALL = ("inductor_cpp_compile_error", "inductor_runtime_error", "dynamic_shape_error", "inductor_accuracy")
CRASH = "crash_signal"
DEFAULT = [*(EXAMPLES / f"{name}.py" for name in (*SMALL, CRASH)), *sorted(CASES.glob("*.py"))]
PATIENCE = 600.0  # seconds for one run of a script


@dataclass(frozen=True)
class Outcome:
    """The result of one minifier on one case; without `statements` there is no result."""

    queries: int = 0
    seconds: float = 0.0
    cpu: float = 0.0  # seconds
    statements: int | None = None
    same: bool = False  # the result fails with the original's signature
    alone: bool = False  # the result fails in another directory too
    stopped: bool = False  # stopped at the time limit
    note: str = ""
    reached: tuple[tuple[int, float], ...] = ()  # statements left, and the seconds at which they were


@dataclass(frozen=True)
class Subject:
    """A failing script, and its failure."""

    script: Path
    directory: Path  # an empty directory
    signature: Signature
    case: Path
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    @property
    def kind(self) -> Kind:
        return self.signature.kind


def capture(script: Path, directory: Path) -> Subject | str:
    """Collect up to the capture. Returns the reason when there is no graph."""
    case = directory / "case.repro"
    collect = [*_TOOL, "collect", "--python", sys.executable, "--until", "capture", "--output", str(case), str(script)]
    done = measured(collect, directory, os.environ, 10 * PATIENCE)
    signature = Case.open(case).file.signature if case.exists() else None
    if signature is None or not (case / "capture" / "program.py").exists():
        return done.stderr.strip().rpartition("\n")[2] or "no graph was captured"
    return Subject(script, directory, signature, case)


_TOOL = (sys.executable, "-m", "repro_kit")


def with_repro_kit(subject: Subject, jobs: int) -> Outcome:
    """Time `repro-kit minify`."""
    done = measured(
        [*_TOOL, "minify", "--jobs", str(jobs), str(subject.case)], subject.directory, os.environ, 10 * PATIENCE
    )
    if done.code != 0:
        return Outcome(seconds=done.seconds, note=done.stderr.strip().rpartition("\n")[2])
    made = Case.open(subject.case).read("minify/minify.json", Reduction)
    alone = fails_alike(elsewhere(subject, subject.case / "minify" / "best.py"), subject)
    around = done.seconds - made.seconds  # its start, and its end
    reached = tuple((step.statements, around + step.seconds) for step in made.steps)
    return Outcome(made.queries, done.seconds, done.cpu, made.statements_after, made.verified, alone, reached=reached)


def peer_environment(directory: Path, env: Mapping[str, str]) -> dict[str, str]:
    """The environment of PyTorch's minifier, with caches of its own."""
    return {
        **env,
        "TORCH_COMPILE_DEBUG_DIR": str(directory),
        "TORCHINDUCTOR_CACHE_DIR": str(directory / "cache"),
    }


def leave_launcher(
    script: Path, directory: Path, env: Mapping[str, str], kind: Kind, limit: float
) -> tuple[Ended, Path | None]:
    """The run of the script in which torch leaves the launcher of its minifier, and the launcher."""
    level = "4" if kind is Kind.ACCURACY else "2"
    dumping = {**env, "TORCHDYNAMO_REPRO_AFTER": "aot", "TORCHDYNAMO_REPRO_LEVEL": level}
    done = measured([sys.executable, script], directory, dumping, limit)
    return done, next(iter(directory.rglob("minifier_launcher.py")), None)


def with_pytorch(subject: Subject, limit: float, *, start_only: bool) -> Outcome:
    """Let torch dump its launcher, then time the launcher."""
    directory = subject.directory
    env = peer_environment(directory, subject.env)
    _, launcher = leave_launcher(subject.script, directory, env, subject.kind, limit)
    if launcher is None:
        return Outcome(note="it left no launcher")
    if start_only:
        return Outcome(note="it left a launcher")
    done = measured([sys.executable, launcher], launcher.parent, env, limit)
    stopped = done.code is None
    queries = len(list((launcher.parent / "isolate").glob("*.py")))
    note = f"stopped after {limit:.0f} s" if stopped else ""
    result = launcher.parent / "repro.py"
    if not result.exists():
        return Outcome(queries, done.seconds, done.cpu, stopped=stopped, note=note or "no repro.py")
    statements, same = _statements(result), fails_alike(result, subject)
    moved = elsewhere(subject, result)
    launcher.parent.rename(launcher.parent.with_name("gone"))
    alone = same and fails_alike(moved, subject)
    return Outcome(queries, done.seconds, done.cpu, statements, same, alone, stopped, note)


def elsewhere(subject: Subject, script: Path) -> Path:
    """A copy of `script` in a directory of its own."""
    return Path(shutil.copy(script, tempfile.mkdtemp(prefix="alone-", dir=subject.directory)))


def _statements(path: Path) -> int | None:
    try:
        return size(from_runnable(path.read_text(encoding="utf-8")))
    except ReproKitError:
        return None


def fails_alike(path: Path, subject: Subject) -> bool:
    """Whether the script fails, with the original's signature."""
    env = {**subject.env, "TORCHINDUCTOR_CACHE_DIR": tempfile.mkdtemp(prefix="cache-")}
    try:
        done = measured([sys.executable, path], path.parent, env, PATIENCE)
    finally:
        shutil.rmtree(env["TORCHINDUCTOR_CACHE_DIR"], ignore_errors=True)
    failure = _failure(done)
    if failure is None:
        return False
    if subject.kind is Kind.ACCURACY:  # the two minifiers' scripts report a wrong result differently
        return failure.kind is Kind.ACCURACY or "AccuracyError" in done.stderr
    return subject.signature.matches(signature_of(failure), Strength.REBASED)


def _failure(done: Ended) -> Failure | None:
    if not done.code:
        return None
    if done.code < 0:
        return failure_from_signal(signal.Signals(-done.code).name, text=done.stderr)
    return failure_from_text(done.stderr)


def compared(script: Path, options: argparse.Namespace) -> tuple[Outcome, Outcome]:
    """Both minifiers on one case."""
    directory = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        subject = capture(script.resolve(), directory)
        if isinstance(subject, str):
            return Outcome(note=subject), Outcome(note="not tried")
        return with_repro_kit(subject, options.jobs), with_pytorch(
            subject, options.limit, start_only=options.start_only
        )
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def print_case(name: str, ours: Outcome, theirs: Outcome) -> None:
    for tool, outcome in (("repro-kit", ours), ("PyTorch", theirs)):
        left = "" if outcome.statements is None else str(outcome.statements)
        held = ("", "") if outcome.statements is None else (_yes(outcome.same), _yes(outcome.alone))
        ratio = _ratio(ours, theirs) if outcome is theirs else ""
        note = outcome.note or ("" if outcome is theirs else _sooner(ours, theirs))
        row = (outcome.queries, f"{outcome.seconds:.0f} ({outcome.cpu:.0f})", left, *held, ratio, note)
        print(f"| {name} | {tool} | " + " | ".join(map(str, row)) + " |", flush=True)


def _sooner(ours: Outcome, theirs: Outcome) -> str:
    """How soon repro-kit is at the size of PyTorch's result; it goes on with what the peer keeps, such as inputs."""
    least = theirs.statements
    at = next((seconds for statements, seconds in ours.reached if least is not None and statements <= least), None)
    return "" if at is None else f"as few statements as PyTorch's after {at:.0f} s: {theirs.seconds / at:.1f}×"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _timed(ours: Outcome, theirs: Outcome) -> bool:
    """Whether both times can be compared. Without a result, only the time of a stopped minifier counts."""
    return ours.statements is not None and (theirs.statements is not None or theirs.stopped)


def _ratio(ours: Outcome, theirs: Outcome) -> str:
    if not _timed(ours, theirs):
        return ""
    least = "≥ " if theirs.stopped else ""
    return f"{least}{theirs.seconds / ours.seconds:.1f}× ({theirs.cpu / ours.cpu:.1f}×)"


def print_summary(outcomes: Mapping[str, tuple[Outcome, Outcome]]) -> None:
    """Print a summary of all cases."""
    timed = [both for both in outcomes.values() if _timed(*both)]
    if timed:
        wall = median(theirs.seconds / ours.seconds for ours, theirs in timed)
        cpu = median(theirs.cpu / ours.cpu for ours, theirs in timed)
        print(f"\nMedian ratio of the times: {wall:.1f}×, of CPU seconds {cpu:.1f}× ({len(timed)} cases)")
    for at, tool in enumerate(("repro-kit", "PyTorch")):
        results = [both[at] for both in outcomes.values() if both[at].statements is not None]
        same, alone = sum(result.same for result in results), sum(result.alone for result in results)
        if results:
            share = f"{same} ({100 * same / len(results):.0f} %) with the same signature"
            print(f"{tool}: {len(results)} results of {len(outcomes)} cases; {share}; {alone} fail alike on their own")
    kept = {name: both for name, both in outcomes.items() if both[1].same and both[1].statements is not None}
    larger = [
        name for name, (ours, theirs) in kept.items() if ours.statements is None or ours.statements > theirs.statements
    ]
    if kept:
        comparison = f"larger in {', '.join(larger)}" if larger else "never larger"
        print(f"Where PyTorch's result keeps the signature ({len(kept)} cases), repro-kit's is {comparison}.")


def main() -> None:
    """Print one table, and a summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scripts", nargs="*", type=Path, default=DEFAULT)
    parser.add_argument("--limit", type=float, default=1800, help="seconds for PyTorch's minifier on one case")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--start-only", action="store_true", help="of PyTorch's minifier, only see that it starts")
    options = parser.parse_args()
    print("| case | minifier | queries | seconds | statements | same failure | on its own | ratio | note |")
    print("|---" * 9 + "|")
    results = {}
    for script in options.scripts:
        ours, theirs = results[script.stem] = compared(script, options)
        print_case(script.stem, ours, theirs)
    print_summary(results)


if __name__ == "__main__":
    main()
