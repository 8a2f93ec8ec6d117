"""What the results on a line of builds show of one case: since when it fails, how certain that is, its state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby, takewhile
from math import prod
from typing import Any

from repro_kit.failure.signature import RunOutcome
from repro_kit.reduce.flaky import MISSED, NO_RUNS, Tally, chance_to_miss
from repro_kit.regressions.build import Mark
from repro_kit.regressions.search import Change, changes
from repro_kit.regressions.unit import WORDS, UnitResult

#: The fewest passing runs in a row that count, even of a case that has failed in every run so far.
FEWEST_PASSES = 3
#: The most passing runs that are asked for: rarer failures than about 5 % look like fixed ones.
MOST_PASSES = 60
_MISSED = 0.005  # accepted probability that a flaky case passes by chance
_LUCK = 0.005  # accepted probability that some stretch of passes among all builds of a flaky case is luck
_MOST_RETURNS = 2  # of a case that was fixed: with more it counts as flaky
#: The evidence of a case without a result.
NOT_RUN_YET = "not run yet"
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
    lucky: bool = False  # the last fix of a flaky case may be luck: what fails after it is the old failure
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
        tally.flaky and _is_lucky(verdicts, marks, tally),
        tuple(marks),
    )


def _is_lucky(verdicts: Sequence[UnitResult], marks: Sequence[Mark | None], tally: Tally) -> bool:
    """Whether the passes of the last fix are so few that among so many builds they may be luck."""
    fixes = [change.after for change in _changes(marks) if change.fixed]
    stretch = takewhile(lambda verdict: not verdict.fails, verdicts[fixes[-1] :]) if fixes else ()
    passed = sum(verdict.passed for verdict in stretch)
    return bool(fixes) and len(verdicts) * chance_to_miss(tally.failed, tally.runs, passed) > _LUCK


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


def beginning(standing: Standing, verdicts: Sequence[UnitResult], tally: Tally) -> VerdictFlip | None:
    """Where a case that fails on the newest builds began to; None if it has not passed before.

    The passes before may be too few to be sure of it: the flip's confidence says how sure it is.
    """
    if standing.trend is not Trend.FAILS or (standing.flips and not standing.flips[-1].fixed):
        return standing.flips[-1] if standing.trend is Trend.FAILS else None
    stretches = [(fails, list(group)) for fails, group in groupby(filter(_decides, verdicts), lambda each: each.fails)]
    if len(stretches) < 2:
        return None
    before, after = stretches[-2][1], stretches[-1][1]
    chance = chance_to_miss(tally.failed, tally.runs, sum(each.passed for each in before))
    return VerdictFlip(before[-1], after[0], chance)


class State(StrEnum):
    """The state of a case, most urgent first."""

    REOPENED = "reopened"  # it was fixed on a line, and fails there again
    OPEN = "open"
    FLAKY = "flaky"  # open, and only some of the runs fail
    FIXED = "fixed"  # it passes on a line where it failed, and not yet on every line
    NEW = "new"  # it has not failed here yet
    STALE = "stale"  # no line can run it
    CLOSED = "closed"  # it passes on every tracked line
    DUPLICATE = "duplicate"


@dataclass(frozen=True)
class Judged:
    """A state, and its evidence in words."""

    state: State
    evidence: str


def judge(standings: Sequence[Standing], tally: Tally) -> Judged:
    """The state of a case that is not a duplicate. `standings`: one for each tracked line; `tally`: over all lines."""
    tried = [standing for standing in standings if standing.trend is not Trend.NOT_RUN]
    if not tried:
        return Judged(State.NEW, NOT_RUN_YET)
    if all(standing.trend is Trend.CANNOT_RUN for standing in tried):
        return Judged(State.STALE, _each(tried))
    if not any(standing.failed for standing in tried):
        return Judged(State.NEW, f"{_each(tried)}; it has not failed here, so nothing is fixed")
    back = [standing for standing in tried if standing.came_back and not standing.lucky]
    if back:
        return Judged(State.REOPENED, "; ".join(_history(standing) for standing in back))
    passing = [standing for standing in tried if standing.trend is Trend.PASSES]
    fixed = [standing for standing in tried if standing.gone and any(flip.fixed for flip in standing.flips)]
    rest = [standing for standing in standings if standing not in passing]
    if not rest:
        return Judged(State.CLOSED, _each(passing))
    if fixed:
        return Judged(State.FIXED, f"{'; '.join(map(_history, fixed))}; not yet: {_each(rest)}")
    if tally.flaky:
        return Judged(State.FLAKY, f"{tally.failed} of {tally.runs} runs fail; {_each(tried)}")
    return Judged(State.OPEN, _each(tried))


def _each(standings: Sequence[Standing]) -> str:
    return "; ".join(_words(standing) for standing in standings)


def _history(standing: Standing) -> str:
    return f"{standing.line}: " + ", then ".join(flip.sentence for flip in standing.flips)


def _words(standing: Standing) -> str:
    newest, decisive = standing.newest, standing.decisive
    if newest is None:
        return f"{standing.line}: not run"
    if decisive is not None and standing.trend is Trend.CANNOT_RUN:
        return f"{standing.line}: it has said nothing since {decisive.build}" + (
            f": {newest.note}" if newest.note else ""
        )
    if decisive is None or standing.trend in (Trend.CANNOT_RUN, Trend.OTHERWISE):
        return f"{standing.line}: {standing.trend} on {newest.build}" + (f": {newest.note}" if newest.note else "")
    also = "" if decisive is newest else f" ({newest.build} cannot run it)"
    on = f"{standing.line}: {standing.trend} on {decisive.build}"
    match standing.trend:
        case Trend.PASSES:
            flips = [flip.sentence for flip in standing.flips if flip.fixed]
            return f"{standing.line}: {flips[-1]}{also}" if flips else f"{on} ({standing.passes} runs){also}"
        case Trend.UNDECIDED:
            runs = f"in {standing.passes} runs of {standing.needed} needed"
            return f"{standing.line}: passes on {decisive.build} {runs}{also}"
    rate = f" ({decisive.failed} of {decisive.tally.runs} runs)" if decisive.tally.flaky else ""
    began = f" (began: {standing.flips[-1].sentence})" if standing.flips else ""
    return f"{on}{rate}{also}{began}"


_SIGNS = {RunOutcome.FAILS_ALIKE: "✗", RunOutcome.PASSES: "✓", RunOutcome.FAILS_OTHERWISE: "!"}
#: What a table says of an outcome.
CELLS = {outcome: f"{_SIGNS.get(outcome, '·')} {words}" for outcome, words in WORDS.items()}


@dataclass(frozen=True)
class ReleaseTable:
    """One row for each build, oldest first."""

    rows: tuple[tuple[str, str, str, str], ...]
    sentence: str
    standing: Standing
    verdicts: tuple[UnitResult, ...] = field(default=())
    columns: tuple[str, ...] = ("build", "verdict", "what was seen", "seconds")

    @property
    def confidence(self) -> float:
        """The probability that no end of any flip is misjudged by chance: the product over the flips."""
        return prod(flip.confidence for flip in self.standing.flips)

    def as_json(self) -> dict[str, Any]:
        """The fields of ``--json``."""
        return {
            "sentence": self.sentence,
            "confidence": round(self.confidence, 4),
            "builds": [
                {
                    "build": verdict.build,
                    "outcome": verdict.outcome,
                    "failed": verdict.failed,
                    "passed": verdict.passed,
                    "note": verdict.note or None,
                    "seconds": round(verdict.seconds, 1),
                }
                for verdict in self.verdicts
            ],
            "flips": [
                {"before": flip.before.build, "after": flip.after.build, "fixed": flip.fixed,
                 "confidence": round(flip.confidence, 4)}
                for flip in self.standing.flips
            ],
        }  # fmt: skip

    def as_markdown(self) -> str:
        """The table as Markdown, to paste into an issue."""
        lines = ["| " + " | ".join(self.columns[:3]) + " |", "|---|---|---|"]
        lines += ["| " + " | ".join(map(_cell, row[:3])) + " |" for row in self.rows]
        return "\n".join([*lines, "", self.sentence, ""])


def release_table(
    verdicts: Sequence[UnitResult], claimed: int = 1, names: Mapping[str, str] | None = None
) -> ReleaseTable:
    """The table of `verdicts`, oldest build first. `names`: the names to show, by build; by default the build's own."""
    standing = standing_of("", verdicts, tally_of(verdicts), claimed)
    called = names or {}
    rows = tuple(
        (called.get(each.build, each.build), CELLS[each.outcome], seen_in_words(each), f"{each.seconds:.1f}")
        for each in verdicts
    )
    return ReleaseTable(rows, _sentence(standing, called), standing, tuple(verdicts))


def seen_in_words(verdict: UnitResult) -> str:
    """The runs on a build, and what else was seen."""
    runs = verdict.failed + verdict.passed
    counts = f"{verdict.failed} of {runs} runs fail" if verdict.failed and verdict.passed else f"{runs} runs"
    return "; ".join(part for part in (counts if runs > 1 else "", verdict.note) if part)


def _sentence(standing: Standing, called: Mapping[str, str]) -> str:
    if standing.newest is None:
        return "It was not run."
    newest = called.get(standing.newest.build, standing.newest.build)
    if standing.flips:
        text = ", then ".join(flip.sentence for flip in standing.flips)
        for build, name in called.items():
            text = text.replace(build, name)
        return f"It {text}."
    match standing.trend:
        case Trend.UNDECIDED:
            return f"It passes on {newest} in {standing.passes} runs; {standing.needed} in a row are needed to say so."
        case Trend.CANNOT_RUN:
            return f"It cannot run on {newest}: {standing.newest.note}."
        case Trend.OTHERWISE:
            return f"It fails differently on {newest}: {standing.newest.note}."
    return f"It {standing.trend} on every build that can run it."


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("<", "&lt;").replace("|", "\\|")
