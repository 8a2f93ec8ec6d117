"""What a line of builds shows of a release: nights without verdicts, and whose a regression is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil

from packaging.version import InvalidVersion, Version

from repro_kit.failure.signature import RunOutcome
from repro_kit.regressions.lifecycle import VerdictFlip
from repro_kit.regressions.unit import UnitResult

#: So many cases of one batch, and so large a share of it, that show nothing at once are an outage.
OUTAGE_CASES, OUTAGE_SHARE = 3, 0.25
#: So often a batch is taken for an outage; then the build is what cannot run the cases.
OUTAGE_TRIES = 3
#: Begins the note of a result that is missing.
NOT_RUN = "it was not run, though most other cases were"
_TWIN = " (twin)"

#: Units that ran together: the line, the build, and the number of the attempt.
BatchKey = tuple[str, str, int]


@dataclass(frozen=True)
class Batch:
    """How many units ran together, of cases that can run on the line, and how many of them show nothing."""

    line: str
    build: str
    attempt: int
    cases: int
    silent: int
    note: str = ""  # of one that shows nothing
    at: str = ""

    @property
    def key(self) -> BatchKey:
        """What tells it from the others."""
        return self.line, self.build, self.attempt

    @property
    def is_outage(self) -> bool:
        """Whether so many cases show nothing at once that the machine is at fault, or the installation."""
        enough = self.silent >= max(OUTAGE_CASES, ceil(OUTAGE_SHARE * self.cases))
        return enough and self.attempt < OUTAGE_TRIES

    @property
    def sentence(self) -> str:
        """The outage in words."""
        why = f" ({self.note})" if self.note else ""
        return f"{self.line}: {self.silent} of {self.cases} cases show nothing on {self.build}{why}: no verdicts"


def outages(batches: Iterable[Batch]) -> dict[BatchKey, Batch]:
    """The batches that are outages: their time-outs, and what could not run in them, are no results."""
    return {batch.key: batch for batch in batches if batch.is_outage}


def twin_line(line: str) -> str:
    """The name of the line that holds, for each build of `line`, what the stable build showed on the same day."""
    return f"{line}{_TWIN}"


def is_twin(line: str) -> bool:
    """Whether a line holds the results of twins."""
    return line.endswith(_TWIN)


def with_missing(
    line: str, verdicts: Sequence[UnitResult], order: Sequence[str], busy: Sequence[str]
) -> list[UnitResult]:
    """`verdicts`, and what is missing after the last one: the builds on which most other cases have a verdict."""
    if not verdicts:
        return []
    place = {build: at for at, build in enumerate(order)}
    last = place.get(verdicts[-1].build, len(order))
    later = sorted(place[build] for build in busy if place.get(build, -1) > last)
    case = verdicts[-1].case
    missing = (UnitResult(order[at], RunOutcome.CANNOT_TELL, note=NOT_RUN, case=case, line=line) for at in later)
    return [*verdicts, *missing]


class Whose(StrEnum):
    """Whose regression it is."""

    TORCH = "torch"
    APP = "the app or its packages"
    UNKNOWN = "not known"


@dataclass(frozen=True)
class Attribution:
    """Whose a regression is, and why."""

    whose: Whose
    why: str


def whose(flip: VerdictFlip, order: Sequence[str], twins: Mapping[str, UnitResult]) -> Attribution:
    """Whose regression a flip is, by what the same case shows on the stable build on the same days.

    A stable torch does not change: what begins to fail on it, too, is not torch's. `order`: the builds of the line;
    `twins`: by build of the line.
    """
    if not twins:
        return Attribution(Whose.UNKNOWN, "it has no twin on a stable build")
    place = {build: at for at, build in enumerate(order)}
    first, last = place.get(flip.after.build, len(order)), place.get(flip.before.build, -1)
    after = next((twin for build in order[first:] if (twin := _decided(twins.get(build)))), None)
    before = (
        next((twin for build in order[last::-1] if (twin := _decided(twins.get(build)))), None) if last >= 0 else None
    )
    if after is None:
        return Attribution(Whose.UNKNOWN, "its twin has no verdict since then")
    if after.tally.flaky:
        return Attribution(Whose.UNKNOWN, "its twin fails in some runs only")
    if after.passes:
        return Attribution(Whose.TORCH, f"the stable build passes on the day of {after.build}")
    if before is None:
        return Attribution(Whose.UNKNOWN, "the stable build fails, too, and nothing is known of it before")
    if before.fails:
        return Attribution(Whose.UNKNOWN, "the stable build failed before, too")
    return Attribution(Whose.APP, f"the stable build fails, too, since the day of {after.build}")


def _decided(twin: UnitResult | None) -> UnitResult | None:
    return twin if twin is not None and (twin.fails or twin.passes) else None


def without_twins(results: Mapping[str, Sequence[UnitResult]]) -> dict[str, Sequence[UnitResult]]:
    """The results of a case on the lines that are not twins."""
    return {line: of_line for line, of_line in results.items() if not is_twin(line)}


def as_twin(unit: UnitResult) -> UnitResult:
    """A result on the stable build, as the twin of its line."""
    return replace(unit, line=twin_line(unit.line))


def release_of(version: str | None) -> str:
    """The release that a build becomes: 2.16 for 2.16.0.dev20261101+cpu; "" if the version says none."""
    try:
        parsed = Version(version or "")
    except InvalidVersion:
        return ""
    return ".".join(map(str, parsed.release[:2]))
