"""The state of a case: new, open, fixed, closed, reopened; duplicate, stale, flaky. It follows from the verdicts alone.

The same verdicts give the same state in whatever order they arrived, so the histories of two machines can be merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from repro_kit.farm.standing import Standing, Trend
from repro_kit.reduce.flaky import Tally


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
        return Judged(State.NEW, "not run yet")
    if all(standing.trend is Trend.CANNOT_RUN for standing in tried):
        return Judged(State.STALE, _each(tried))
    if not any(standing.failed for standing in tried):
        return Judged(State.NEW, f"{_each(tried)}; it has not failed here, so nothing is fixed")
    back = [standing for standing in tried if standing.came_back]
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
