#!/usr/bin/env python3
"""Measure the whole of `repro-kit collect` against one cold run of the failing script.

    python scripts/bench/collect.py [--only NAME …] [--case PATH …] [--limit SECONDS] [--by-hand] [--json FILE]

The cases are the examples (with their options of examples/expected.toml) and scripts/bench/cases. `--only` takes those
with these names, `--case` takes other scripts. Each case is collected with `--yes --trace no --include-source` from an
empty directory with empty caches. The cold run is `python SCRIPT` with an empty cache of Inductor. `--by-hand` runs
PyTorch's documented way too: the 12 cells of the ablation one by one, then its minifier.
Seconds are wall time; in brackets are CPU seconds of all processes. What a stage takes is sampled twice a second. A
command that reaches the limit is ended with all that it started, and the table says so.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from packaging.specifiers import SpecifierSet

from ablate import LADDER_CELLS, by_hand
from measure import Ended, measured
from minify_vs_pytorch import leave_launcher, peer_environment
from repro_kit.case.case import STAGES, Case
from repro_kit.errors import ReproKitError
from repro_kit.failure.kinds import Kind

EXAMPLES = Path(__file__).parents[2] / "examples"
CASES = Path(__file__).parent / "cases"
OWN_USAGE = Path(__file__).with_name("own_usage.py")


@dataclass(frozen=True)
class Script:
    """A failing script, and the options of `collect` that it needs."""

    path: Path
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Usage:
    """Wall and CPU seconds of a command or a stage. `ended`: the command was not stopped at the limit."""

    seconds: float
    cpu: float
    ended: bool = True

    def __str__(self) -> str:
        return f"{'' if self.ended else '> '}{self.seconds:.0f} s [{self.cpu:.0f}]"


@dataclass(frozen=True)
class Sample:
    """The CPU seconds that all processes had taken at `seconds`, and the stage that was under way ("" for none)."""

    seconds: float
    cpu: float
    stage: str


@dataclass(frozen=True)
class Collected:
    """One `collect`, and what repro-kit's own process took; None where `collect` was stopped."""

    usage: Usage
    stages: Mapping[str, Usage]
    result: str  # the outcome in words
    starts: int | None = None  # how often the user's command was started
    peak_memory: int | None = None  # bytes
    own_cpu: float | None = None  # seconds


@dataclass(frozen=True)
class Row:
    """Everything that was measured of one case."""

    name: str
    cold: Usage
    collected: Collected
    by_hand: Usage | None = None
    note: str = ""  # how the run by hand went


def cpu_ratio(collected: Usage, other: Usage | None) -> float | None:
    """The CPU seconds of `collect` as a multiple of the other's; None where either command did not end."""
    return collected.cpu / other.cpu if other and other.ended and other.cpu and collected.ended else None


def wall_ratio(collected: Usage, other: Usage | None) -> float | None:
    """The wall seconds of `collect` as a multiple of the other's; None where either command did not end."""
    return collected.seconds / other.seconds if other and other.ended and other.seconds and collected.ended else None


def usage_by_stage(samples: Sequence[Sample]) -> dict[str, Usage]:
    """What each stage took, in the order of the stages. The time between two samples is the earlier one's stage's."""
    totals: dict[str, tuple[float, float]] = {}
    for before, after in pairwise(samples):
        seconds, cpu = totals.get(before.stage, (0.0, 0.0))
        totals[before.stage] = (seconds + after.seconds - before.seconds, cpu + max(0.0, after.cpu - before.cpu))
    return {name: Usage(*totals[name]) for name in STAGES if name in totals}


@dataclass
class Sampler:
    """Takes samples of a `collect` under way."""

    case: Path
    samples: list[Sample] = field(default_factory=lambda: [Sample(time.monotonic(), 0.0, "")])

    def take(self, guard: int) -> None:
        """One sample; `guard` is the process above the command's."""
        self.samples.append(Sample(time.monotonic(), max(self.samples[-1].cpu, _cpu_below(guard)), self._stage()))

    def _stage(self) -> str:
        with suppress(ReproKitError):
            return next((stage.name for stage in Case.open(self.case).file.stages if stage.status == "interrupted"), "")
        return ""


def _cpu_below(pid: int) -> float:
    """The CPU seconds of all processes below `pid`, those that have ended and were waited for included."""
    total = 0.0
    with suppress(psutil.Error):
        for process in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.Error):
                total += sum(process.cpu_times()[:4])  # its own, and its children's
    return total


def cold_run(script: Script, directory: Path, limit: float) -> Usage:
    """The script alone, with an empty cache."""
    env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(directory / "cold-cache")}
    return _usage(measured([sys.executable, script.path], directory, env, limit))


def _usage(ended: Ended) -> Usage:
    return Usage(ended.seconds, ended.cpu, ended.code is not None)


def collected(script: Script, directory: Path, limit: float) -> tuple[Collected, dict[str, Any]]:
    """Run `collect`; what was measured, and what it printed as JSON (nothing when it was stopped)."""
    case, own_file = directory / "case.repro", directory / "own.json"
    env = {
        **os.environ,
        "XDG_CACHE_HOME": str(directory / "xdg"),
        "TORCHINDUCTOR_CACHE_DIR": str(directory / "users-cache"),
    }
    options = [
        "--yes",
        "--trace",
        "no",
        "--include-source",
        "--json",
        "--python",
        sys.executable,
        "-o",
        case,
        *script.options,
    ]
    sampler = Sampler(case)
    ended = measured(
        [sys.executable, OWN_USAGE, own_file, "collect", *options, script.path], directory, env, limit, sampler.take
    )
    usage = _usage(ended)
    sampler.samples.append(Sample(sampler.samples[0].seconds + usage.seconds, usage.cpu, ""))
    stages = usage_by_stage(sampler.samples)
    if not usage.ended or not own_file.exists():
        last = next(reversed(stages), "the start")
        return Collected(usage, stages, f"ended in {last}" if usage.ended else f"stopped in {last}"), {}
    result, own = json.loads(ended.stdout), json.loads(own_file.read_text())
    seconds = {stage["name"]: stage["seconds"] for stage in result["stages"] if stage["status"] != "skipped"}
    exact = {
        name: Usage(seconds[name], stages[name].cpu if name in stages else 0.0) for name in STAGES if name in seconds
    }
    starts, peak = len(result["runs"]), own["peak_memory"]
    return Collected(usage, exact, in_words(result), starts, peak, round(own["cpu"], 2)), result


def in_words(result: Mapping[str, Any]) -> str:
    """The outcome of a `collect` that ended."""
    if result["bundle"] is None:
        return f"exit {result['exit']}, no bundle"
    size = f"{result['statements']} of {result['statements_before']} statements" if result["statements"] else ""
    return ", ".join(filter(None, ["verified" if result["verified"] else "not verified", result["level"], size]))


def documented_way(script: Script, directory: Path, kind: str | None, limit: float) -> tuple[Usage, str]:
    """The 12 cells by hand, then PyTorch's minifier; both together stop at the limit."""
    cells = by_hand(script.path, directory, LADDER_CELLS, limit)
    left = limit - cells.seconds
    if left <= 0:
        return Usage(cells.seconds, cells.cpu, ended=False), cells.note
    env = peer_environment(directory, os.environ)
    dumped, launcher = leave_launcher(script.path, directory, env, Kind(kind) if kind else Kind.COMPILE_ERROR, left)
    seconds, cpu = cells.seconds + dumped.seconds, cells.cpu + dumped.cpu
    if launcher is None or dumped.code is None:
        return Usage(seconds, cpu, dumped.code is not None), f"{cells.note}; the minifier left no launcher"
    reduced = measured([sys.executable, launcher], launcher.parent, env, max(1.0, limit - seconds))
    ended = reduced.code is not None
    words = f"the minifier took {reduced.seconds:.0f} s" if ended else "the minifier was stopped"
    return Usage(seconds + reduced.seconds, cpu + reduced.cpu, ended), f"{cells.note}; {words}"


def measure_case(script: Script, limit: float, *, also_by_hand: bool) -> Row:
    """Measure everything of one case, in a directory that is removed afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="collect-"))
    try:
        cold = cold_run(script, directory, limit)
        whole, result = collected(script, directory, limit)
        row = Row(script.path.stem, cold, whole)
        if not also_by_hand:
            return row
        (directory / "by-hand").mkdir()
        usage, note = documented_way(script, directory / "by-hand", result.get("failure"), limit)
        return Row(row.name, cold, whole, usage, note)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def chosen(only: Sequence[str], added: Sequence[Path]) -> list[Script]:
    """The cases that the command line names; without any, the examples that fail here, and the bench's own."""
    expected = tomllib.loads((EXAMPLES / "expected.toml").read_text(encoding="utf-8"))
    here = metadata.version("torch")
    scripts = [
        Script(EXAMPLES / name, tuple(about.get("options", ())))
        for name, about in expected.items()
        if SpecifierSet(about.get("fails_on", "")).contains(here)
    ]
    scripts += [Script(path) for path in sorted(CASES.glob("*.py"))]
    names = {script.path.stem for script in scripts}
    if unknown := set(only) - names:
        sys.exit(f"There is no case {', '.join(sorted(unknown))}; the cases are {', '.join(sorted(names))}.")
    if only or added:
        scripts = [script for script in scripts if script.path.stem in only]
    return [*scripts, *(Script(path.resolve()) for path in added)]


def table_row(row: Row) -> str:
    """One line of the table."""
    whole = row.collected
    ratios = [_ratios(whole.usage, other) if other else "" for other in (row.cold, row.by_hand)]
    cells = [
        row.name,
        "" if whole.starts is None else whole.starts,
        row.cold,
        whole.usage,
        ratios[0],
        *(whole.stages.get(name, "") for name in STAGES),
        "" if whole.peak_memory is None else f"{whole.peak_memory / 1e6:.0f} MB",
        "" if whole.own_cpu is None else f"{whole.own_cpu:.1f} s",
        f"{row.by_hand} {row.note}" if row.by_hand else "",
        ratios[1],
        whole.result,
    ]
    return f"| {' | '.join(map(str, cells))} |"


def _ratios(usage: Usage, other: Usage) -> str:
    wall, cpu = wall_ratio(usage, other), cpu_ratio(usage, other)
    return "" if wall is None or cpu is None else f"{wall:.2f}× [{cpu:.2f}×]"


def summary(rows: Sequence[Row]) -> str:
    """The goals, and how far they are reached."""
    started = [row.collected.starts for row in rows if row.collected.starts is not None]
    ratios = [ratio for row in rows if (ratio := cpu_ratio(row.collected.usage, row.cold)) is not None]
    memory = [row.collected.peak_memory for row in rows if row.collected.peak_memory is not None]
    stopped = [row.name for row in rows if not row.collected.usage.ended]
    lines = [f"One start of the user's command: {started.count(1)} of {len(rows)} cases."]
    if ratios:
        lines.append(f"Median ratio of CPU seconds to one cold run: {median(ratios):.1f} ({len(ratios)} cases).")
    if memory:
        lines.append(f"Most memory of repro-kit's own process: {max(memory) / 1e6:.0f} MB.")
    if stopped:
        lines.append(f"Stopped at the limit: {', '.join(stopped)}.")
    return "\n".join(lines)


def main() -> None:
    """Print the table and the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="only the cases with these names")
    parser.add_argument("--case", nargs="+", type=Path, default=[], metavar="PATH", help="further failing scripts")
    parser.add_argument("--limit", type=float, default=1800, help="seconds for each command of a case")
    parser.add_argument("--by-hand", action="store_true", help="run PyTorch's documented way too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file as well")
    options = parser.parse_args()
    heads = ["case", "starts", "cold run", "collect", "of the cold run", *STAGES]
    heads += ["own memory", "own CPU", "by hand", "of by hand", "result"]
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|", flush=True)
    rows: list[Row] = []
    for script in chosen(options.only, options.case):
        rows.append(measure_case(script, options.limit, also_by_hand=options.by_hand))
        print(table_row(rows[-1]), flush=True)
        if options.json:
            options.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n", encoding="utf-8")
    print(f"\n{summary(rows)}")


if __name__ == "__main__":
    main()
