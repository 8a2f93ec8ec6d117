"""Judge one case by its results on the builds of a line: does it fail there, since when, and how certain is that.

A flaky case passes now and then although it is not fixed. So a pass counts only when the passes in a row
are too many to be chance: `chance_to_miss` of `reduce/flaky.py`, with the failure rate seen so far, must not exceed
0.5 % (5 % for a case that fails in every run on its failing builds). Passes of neighbouring builds count together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby

from repro_kit.bisect.build import Mark
from repro_kit.bisect.changes import Change, changes
from repro_kit.farm.unit import UnitResult
from repro_kit.model.run_outcome import RunOutcome
from repro_kit.reduce.flaky import MISSED, NO_RUNS, Tally, chance_to_miss

#: The fewest passing runs in a row that count, even of a case that has failed in every run so far.
FEWEST_PASSES = 3
#: The most passing runs that are asked for: rarer failures than about 5 % look like fixed ones.
MOST_PASSES = 60
_MISSED = 0.005  # accepted probability that a flaky case passes by chance
_MOST_RETURNS = 2  # of a case that was fixed: with more it counts as flaky
_UNABLE = 3  # newest builds in a row that cannot run a case, after which it is stale


class Trend(StrEnum):
    """The newest builds of a line, for one case."""

    FAILS = "fails"
    PASSES = "passes"
    UNDECIDED = "undecided"  # it passes, but not often enough for a flaky failure
    OTHERWISE = "fails differently"
    CANNOT_RUN = "cannot run"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class VerdictFlip:
    """Two builds between which the result changes, and the chance that the passing one passes by luck."""

    before: UnitResult
    after: UnitResult
    chance: float = 0.0

    @property
    def fixed(self) -> bool:
        """Whether the failure goes away here; otherwise it begins."""
        return self.before.fails

    @property
    def confidence(self) -> float:
        """The probability that neither end is misjudged by chance, 0 to 1."""
        return 1 - self.chance

    @property
    def sentence(self) -> str:
        """The flip in words."""
        old, new = ("fails", "passes") if self.fixed else ("passes", "fails")
        sure = f" ({self.confidence:.0%} sure)" if self.confidence < 0.995 else ""
        return f"{old} on {self.before.build}, {new} on {self.after.build}{sure}"


@dataclass(frozen=True)
class Standing:
    """One case on one line."""

    line: str
    trend: Trend
    newest: UnitResult | None = None  # the newest build that was tried
    decisive: UnitResult | None = None  # the newest build on which it failed as expected, or passed
    flips: tuple[VerdictFlip, ...] = ()  # oldest first
    passes: int = 0  # passing runs since the last failure
    needed: int = FEWEST_PASSES
    failed: bool = False  # it has failed on a build of this line
    gone: bool = False  # it passes, as often as needed, on the newest builds that show anything
    marks: tuple[Mark | None, ...] = field(default=())  # of the verdicts, in their order; None: undecided

    @property
    def came_back(self) -> bool:
        """Whether it fails on the newest builds after it was fixed in older ones."""
        return self.trend is Trend.FAILS and any(flip.fixed for flip in self.flips)


def passes_needed(tally: Tally, claimed: int = 1) -> int:
    """How many runs in a row must pass. `claimed`: what the bundle asks for."""
    passes = max(FEWEST_PASSES, min(claimed, MOST_PASSES))
    accepted = _MISSED if tally.flaky else MISSED
    while tally.failed and passes < MOST_PASSES and chance_to_miss(tally.failed, tally.runs, passes) > accepted:
        passes += 1
    return passes


def tally_of(verdicts: Sequence[UnitResult]) -> Tally:
    """The runs on the builds of a line that have the failure, by its verdicts (oldest first).

    These are the builds on which a run failed, and passing builds between them whose passes are too few to be a fix.
    A case that has come back more than twice counts as flaky: then all runs between count.
    """
    stretches = [(fails, list(group)) for fails, group in groupby(filter(_decides, verdicts), lambda each: each.fails)]
    failing = [group for fails, group in stretches if fails]
    tally = sum((each.tally for group in failing for each in group), NO_RUNS)
    comes_and_goes = len(failing) - 1 > _MOST_RETURNS
    needed = passes_needed(tally)
    between = (sum((each.tally for each in group), NO_RUNS) for fails, group in stretches[1:-1] if not fails)
    return sum((runs for runs in between if comes_and_goes or runs.runs < needed), tally)


def standing_of(line: str, verdicts: Sequence[UnitResult], tally: Tally, claimed: int = 1) -> Standing:
    """Judge a case on a line by its verdicts, oldest build first. `tally`: its runs on all lines (`tally_of`)."""
    needed = passes_needed(tally, claimed)
    if not verdicts:
        return Standing(line, Trend.NOT_RUN, needed=needed)
    marks = _marks(verdicts, needed)
    if _returns(marks) > _MOST_RETURNS:  # among so many builds even rare luck is to be expected
        needed = MOST_PASSES
        marks = _marks(verdicts, needed)
    deciding = [(verdict, mark) for verdict, mark in zip(verdicts, marks, strict=True) if _decides(verdict)]
    passes = 0
    for verdict, _ in reversed(deciding):
        if verdict.fails:
            break
        passes += verdict.passed
    return Standing(
        line,
        _trend(verdicts, deciding),
        verdicts[-1],
        deciding[-1][0] if deciding else None,
        tuple(_flips(verdicts, marks, tally)),
        passes,
        needed,
        any(verdict.fails for verdict in verdicts),
        bool(deciding) and deciding[-1][1] is Mark.GOOD,
        tuple(marks),
    )


def _decides(verdict: UnitResult) -> bool:
    return verdict.fails or verdict.passes


def _trend(verdicts: Sequence[UnitResult], deciding: Sequence[tuple[UnitResult, Mark | None]]) -> Trend:
    """The trend of a line. One build that cannot run a case changes nothing."""
    runnable = [_decides(verdict) or verdict.outcome is RunOutcome.FAILS_OTHERWISE for verdict in verdicts]
    if not any(runnable[-_UNABLE:]):
        return Trend.CANNOT_RUN
    if not _decides(next(verdict for verdict, can_run in zip(verdicts[::-1], runnable[::-1], strict=True) if can_run)):
        return Trend.OTHERWISE
    return {Mark.BAD: Trend.FAILS, Mark.GOOD: Trend.PASSES}.get(deciding[-1][1] or Mark.SKIP, Trend.UNDECIDED)


def _marks(verdicts: Sequence[UnitResult], needed: int) -> list[Mark | None]:
    """The mark of each build: None for one that passes, in a stretch of too few passes."""
    marks: dict[int, Mark | None] = {}
    deciding = [(index, verdict) for index, verdict in enumerate(verdicts) if _decides(verdict)]
    for fails, stretch in groupby(deciding, lambda each: each[1].fails):
        members = list(stretch)
        enough = sum(verdict.passed for _, verdict in members) >= needed
        marks.update(
            dict.fromkeys((index for index, _ in members), Mark.BAD if fails else Mark.GOOD if enough else None)
        )
    return [marks.get(index, Mark.SKIP) for index in range(len(verdicts))]


def _changes(marks: Sequence[Mark | None]) -> list[Change]:
    return changes(dict(enumerate(marks)))


def _returns(marks: Sequence[Mark | None]) -> int:
    """How often the failure came back after it was fixed."""
    return sum(not change.fixed for change in _changes(marks)[1:])


def _flips(verdicts: Sequence[UnitResult], marks: Sequence[Mark | None], tally: Tally) -> Iterator[VerdictFlip]:
    for change in _changes(marks):
        before, after = verdicts[change.before], verdicts[change.after]
        passed = (after if change.fixed else before).passed
        yield VerdictFlip(before, after, chance_to_miss(tally.failed, tally.runs, passed) if tally.flaky else 0.0)
