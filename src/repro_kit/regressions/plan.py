"""Which units are due, and which machine of several runs them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from repro_kit.failure.signature import RunOutcome
from repro_kit.reduce.flaky import RUNS_BEFORE_DETERMINISTIC, Tally
from repro_kit.regressions.build import Mark
from repro_kit.regressions.lifecycle import Trend, standing_of
from repro_kit.regressions.search import changes, step_between
from repro_kit.regressions.unit import UnitResult

#: Runs on the first build that fails: they show whether every run fails.
RATE_RUNS = RUNS_BEFORE_DETERMINISTIC
_MOST_UNITS = 8  # of one case on one build


@dataclass(frozen=True)
class DueUnit:
    """A unit to run: `passes` and `failures` as in `UnitRules`."""

    build: str
    passes: int
    failures: int
    attempt: int
    hangs: bool = False  # as in `UnitRules`


@dataclass(frozen=True)
class LinePlan:
    """What a run wants of a line."""

    line: str
    builds: Sequence[str]  # of the whole line, oldest first
    wanted: Collection[str]  # builds that every case is run on
    bisect: bool = True  # also find out between which builds a result changes
    retry: Collection[str] = ()  # builds that are run again if they could not run
    attempts: Mapping[str, int] = field(default_factory=dict)  # of builds whose results do not count: units so far


def due_units(plan: LinePlan, verdicts: Mapping[str, UnitResult], tally: Tally, claimed: int = 1) -> list[DueUnit]:
    """The units of one case that can be run now, oldest build first. `verdicts`: by build, of this line."""
    tried = [verdicts[build] for build in plan.builds if build in verdicts]
    standing = standing_of(plan.line, tried, tally, claimed)
    marks = {verdict.build: mark for verdict, mark in zip(tried, standing.marks, strict=True)}
    needed = standing.needed
    due: dict[str, int] = {}
    for build in plan.builds:
        if build in plan.wanted:
            missing = _missing(verdicts.get(build), marks.get(build), needed, retry=build in plan.retry)
            if build not in verdicts and tally.failed and standing.trend is Trend.PASSES:
                missing = 1  # the passes of the builds before count as well
            if missing:
                due[build] = missing
    if plan.bisect and not due:
        known = {index: marks.get(build) for index, build in enumerate(plan.builds)}
        for step in filter(None, (step_between(change, known) for change in changes(known))):
            build = plan.builds[step.index]
            passed = verdicts[build].passed if build in verdicts else 0
            due[build] = max(needed - passed, 1)
    failures = 1 if tally.failed else RATE_RUNS
    made = {build: verdicts[build].attempt + 1 for build in due if build in verdicts}
    attempts = {build: max(made.get(build, 0), plan.attempts.get(build, 0)) for build in due}
    return [
        DueUnit(build, due[build], failures, attempts[build])
        for build in plan.builds
        if build in due and attempts[build] < _MOST_UNITS
    ]


def _missing(verdict: UnitResult | None, mark: Mark | None, needed: int, *, retry: bool) -> int:
    """How many passing runs a wanted build lacks; 0 when nothing is due."""
    if verdict is None:
        return needed
    if retry and verdict.outcome in (RunOutcome.CANNOT_TELL, RunOutcome.INVALID):
        return needed
    return max(needed - verdict.passed, 0) if mark is None else 0


def shard(ids: Sequence[str], seconds: Mapping[str, float], number: int, of: int) -> set[str]:
    """The cases of shard `number` (1 to `of`).

    The cases are sorted by a hash and laid end to end with their recorded seconds (the median, if none are recorded).
    The whole length is cut into equal parts. A case belongs to the part that holds its middle.
    """
    usual = median(seconds.values()) if seconds else 1.0
    order = sorted(ids, key=lambda id: hashlib.sha256(id.encode()).digest())
    weights = [max(seconds.get(id, usual), 0.001) for id in order]
    total, before, chosen = sum(weights), 0.0, set()
    for id, weight in zip(order, weights, strict=True):
        middle = (before + weight / 2) / total
        if (number - 1) / of <= middle < number / of:
            chosen.add(id)
        before += weight
    return chosen
