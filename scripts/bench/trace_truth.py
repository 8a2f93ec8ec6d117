#!/usr/bin/env python3
"""Hold the counts of ``repro-kit explain --json`` against the raw records of TORCH_TRACE logs.

    python scripts/bench/trace_truth.py PATH...

A PATH is a log, a directory of the logs of one job, or a directory of such. The records are read here by torch's format
alone (torch/_logging/_internal.py, `trace_structured`), with nothing of repro-kit's reader. A count that differs is
shown with both numbers.
tlparse's own inputs are good material: ``git clone https://github.com/pytorch/tlparse``, then its `tests/inputs`.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HEADER = re.compile(r"^(?:\[rank\d+\]:)?[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ (\d+) .*?:\d+\](?: \[\S+\])* (\{.*)$")
NAMED = re.compile(r"rank[_-]?(\d+)")
CACHES = re.compile(r"(aotautograd|fx_graph)(?:_bundled)?_cache_(hit|miss|bypass)$")
LIMIT = re.compile(r"RecompileLimit|(?:recompile|cache_size)[_ ]limit", re.IGNORECASE)
#: What stops a compile without being a fault: Dynamo goes on in eager, or begins again.
BY_DESIGN = re.compile(
    r"Unsupported|UserError|LimitExceeded|SkipFrame|RestartAnalysis|SkipCodeRecursive|StepUnsupported"
)
SKIPPED = ("Graph break: torch.compile cannot properly resume", "Graph break: skip:")


@dataclass
class Truth:
    """What the records of one job say."""

    counts: Counter[str] = field(default_factory=Counter)
    ids: set[tuple[object, ...]] = field(default_factory=set)
    attempts: dict[tuple[object, ...], int] = field(default_factory=dict)
    broken: set[tuple[object, ...]] = field(default_factory=set)
    ranks: set[int] = field(default_factory=set)
    guards: dict[tuple[object, ...], tuple[int, int]] = field(default_factory=dict)

    def rows(self) -> dict[str, float]:
        """The counts by name."""
        return {
            "compiles": len(self.ids),
            "restarts": sum(self.attempts.values()),
            "ranks": len(self.ranks),
            "guards": sum(guards for guards, _ in self.guards.values()),
            **{name: self.counts[name] for name in NAMES},
        }


NAMES = (
    "recompiles", "limit hits", "graph breaks", "hard failures", "dynamo graphs", "aotautograd hit", "aotautograd miss",
    "aotautograd bypass", "fx_graph hit", "fx_graph miss", "fx_graph bypass",
)  # fmt: skip


def records(log: Path) -> Iterator[tuple[int, dict[str, Any], str]]:
    """The process, the JSON and the payload of each sound record."""
    head: re.Match[str] | None = None
    payload: list[str] = []
    with log.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        for line in (*lines, "end"):
            if line.startswith("\t"):
                payload.append(line[1:])
                continue
            if head:
                try:
                    data = json.loads(head[2])
                except ValueError:
                    data = None
                if isinstance(data, dict):
                    yield int(head[1]), data, "".join(payload)
            head, payload = HEADER.match(line.rstrip("\r\n")), []


def compile_id(data: dict[str, Any]) -> str:
    """The compile that a record is about, as torch prints it."""
    for event in ("compilation_metrics", "bwd_compilation_metrics"):
        if isinstance(data.get(event), dict) and data[event].get("compile_id"):
            return str(data[event]["compile_id"])
    parts = [f"!{data['compiled_autograd_id']}"] if data.get("compiled_autograd_id") is not None else []
    if data.get("frame_id") is not None and data.get("frame_compile_id") is not None:
        parts.append(f"{data['frame_id']}/{data['frame_compile_id']}")
    return "/".join(parts)


def truth_of(logs: list[Path]) -> Truth:
    """Count the records of all logs of a job."""
    truth = Truth()
    for log in logs:
        started: set[tuple[int, str]] = set()
        run_of: dict[tuple[int, str], int] = {}
        run = 0
        for pid, data, payload in records(log):
            of = compile_id(data)
            named = NAMED.search(log.name)
            rank = data.get("rank", int(named[1]) if named else None)
            if rank is not None:
                truth.ranks.add(rank)
            if not of:
                continue
            if "dynamo_start" in data and not data.get("attempt"):
                if (pid, of) in started or any(known == of and process != pid for process, known in started):
                    run, started = run + 1, set()
                started.add((pid, of))
                run_of[pid, of] = run
            key = (log.name, rank, run_of.get((pid, of), run), of)
            truth.ids.add(key)
            truth.attempts[key] = max(truth.attempts.get(key, 0), data.get("attempt") or 0)
            _count(truth, key, data, payload)
    return truth


def _count(truth: Truth, key: tuple[object, ...], data: dict[str, Any], payload: str) -> None:
    counts = truth.counts
    artifact = data.get("artifact")
    name = str(artifact.get("name", "")) if isinstance(artifact, dict) else ""
    counts["dynamo graphs"] += "dynamo_output_graph" in data
    if name == "recompile_reasons":
        counts["recompiles"] += 1
    elif name == "dynamo_graph_break_reason":
        # torch says of a break that cannot be resumed twice that it broke the graph
        counts["graph breaks"] += not (payload.startswith(SKIPPED) and key in truth.broken)
        truth.broken.add(key)
    elif cache := CACHES.match(name):
        counts[f"{cache[1]} {cache[2]}"] += 1
    metrics = data.get("compilation_metrics")
    if isinstance(metrics, dict):
        truth.guards[key] = (int(metrics.get("guard_count") or 0), 0)
        failed = f"{metrics.get('fail_type') or ''}: {metrics.get('fail_reason') or ''}"
        if LIMIT.search(failed):
            counts["limit hits"] += 1
            counts["recompiles"] -= 1
            counts["hard failures"] += "FailOn" in failed
        elif metrics.get("fail_type") and not BY_DESIGN.search(str(metrics["fail_type"])):
            counts["hard failures"] += 1
    backward = data.get("bwd_compilation_metrics")
    counts["hard failures"] += bool(isinstance(backward, dict) and backward.get("fail_type"))


def said_of(path: Path) -> dict[str, float] | str:
    """The same counts by ``explain --json``; a sentence where it says none."""
    command = [sys.executable, "-m", "repro_kit", "explain", str(path), "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        insights = json.loads(ran.stdout)["insights"]
    except (ValueError, KeyError):
        return (ran.stdout + ran.stderr).strip()[-300:]
    totals, overview = insights["totals"], insights.get("overview", {})
    caches = {cache["name"]: cache for cache in overview.get("caches", [])}
    said: dict[str, float] = {
        "compiles": totals.get("compiles", 0),
        "restarts": sum(one.get("attempts", 1) - 1 for one in overview.get("compiles", [])),
        "ranks": len(overview.get("ranks", [])),
        "guards": overview.get("guards", 0),
        "recompiles": totals.get("recompiles", 0),
        "limit hits": totals.get("limit_hits", 0),
        "graph breaks": totals.get("graph_breaks", 0),
        "hard failures": sum(one.get("count", 0) for one in insights.get("failures", []) if not one.get("soft")),
        "dynamo graphs": insights.get("events", {}).get("dynamo_output_graph", 0),
    }
    for short, shown in (("aotautograd", "AOTAutograd"), ("fx_graph", "FX graph")):
        for one, many in (("hit", "hits"), ("miss", "misses"), ("bypass", "bypasses")):
            said[f"{short} {one}"] = caches.get(shown, {}).get(many, 0)
    return said


def jobs_in(path: Path) -> Iterator[tuple[Path, list[Path]]]:
    """Each job below `path`: what `explain` is given, and its logs."""
    if path.is_file():
        yield path, [path]
        return
    files = sorted(file for file in path.iterdir() if file.is_file() and file.suffix in (".log", ".txt"))
    if any(NAMED.search(file.name) for file in files):
        yield path, [file for file in files if file.suffix == ".log"]
    else:
        for file in files:
            yield file, [file]
    for folder in sorted(folder for folder in path.iterdir() if folder.is_dir()):
        yield from jobs_in(folder)


def main() -> int:
    """Compare every job, and say how many counts differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    differing = compared = 0
    for path in parser.parse_args().paths:
        for given, logs in jobs_in(path):
            rows, said = truth_of(logs).rows(), said_of(given)
            if isinstance(said, str):
                print(f"{given}: explain says nothing: {said}")
                differing += any(rows.values())
                continue
            apart = [f"{name} {rows[name]:g} ≠ {said[name]:g}" for name in rows if rows[name] != said[name]]
            compared, differing = compared + len(rows), differing + len(apart)
            print(f"{given}: {'; '.join(apart) or 'equal'}")
    print(f"{differing} of {compared} counts differ")
    return bool(differing)


if __name__ == "__main__":
    raise SystemExit(main())
