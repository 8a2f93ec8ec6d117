"""What has changed for a set of cases between one build and the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from repro_kit.model.failure.signature import Signature, Strength
from repro_kit.model.run_outcome import RunOutcome

SCHEMA = 1


#: How a case does on a build, in words.
WORDS = {
    RunOutcome.FAILS_ALIKE: "fails",
    RunOutcome.FAILS_OTHERWISE: "fails differently",
    RunOutcome.PASSES: "passes",
    RunOutcome.CANNOT_TELL: "cannot run",
}


class NewsEvent(StrEnum):
    """What has become of a case since the last build that could judge it; the most urgent first."""

    NEWLY_FAILS = "newly fails"
    CHANGED = "changed its signature"
    FIXED = "newly fixed"
    FIRST = "seen for the first time"
    STILL_FAILS = "still fails"
    STILL_PASSES = "still passes"
    CANNOT_TELL = "cannot run"


#: What a person must look at.
ALARMS = (NewsEvent.NEWLY_FAILS, NewsEvent.CHANGED)
#: What a bisection can tell more about.
TURNS = (NewsEvent.NEWLY_FAILS, NewsEvent.CHANGED, NewsEvent.FIXED)


@dataclass(frozen=True)
class CaseRun:
    """One case on one build."""

    name: str
    state: RunOutcome
    signature: Signature | None = None
    detail: str = ""
    seconds: float = 0.0
    note: str = ""  # on how sure it is

    @property
    def shown(self) -> str:
        """What was seen, in words."""
        told = self.signature.summary() if self.signature else self.detail
        return "; ".join(filter(None, [told, self.note]))


@dataclass(frozen=True)
class LastSeen:
    """What the last build that could judge a case has shown."""

    build: str
    state: RunOutcome
    signature: Signature | None = None


@dataclass(frozen=True)
class NightlyMemory:
    """What is kept between runs."""

    schema: int = SCHEMA
    build: str | None = None  # the last one
    cases: Mapping[str, LastSeen] = field(default_factory=dict)


@dataclass(frozen=True)
class News:
    """One case, what has become of it, and since which build."""

    run: CaseRun
    event: NewsEvent
    since: LastSeen | None = None


@dataclass(frozen=True)
class Group:
    """Cases that changed alike, with one signature: one regression is one report."""

    event: NewsEvent
    news: tuple[News, ...]
    bisected: str = ""  # the answer, in one sentence
    answer: str = ""  # the same as Markdown
    facts: tuple[tuple[str, str], ...] = ()  # and in parts, each with its name

    @property
    def names(self) -> list[str]:
        """The cases."""
        return [it.run.name for it in self.news]

    @property
    def signature(self) -> str:
        """The failure: the one now, or the one that is gone."""
        first = self.news[0]
        gone = first.since.signature if first.since else None
        signature = first.run.signature or gone
        return signature.summary() if signature else first.run.detail


def compare(memory: NightlyMemory, runs: Sequence[CaseRun]) -> list[News]:
    """What has become of each case since it was last judged."""
    return [News(run, _event(run, memory.cases.get(run.name)), memory.cases.get(run.name)) for run in runs]


def grouped(news: Sequence[News]) -> list[Group]:
    """The cases by what has become of them and by signature, the most urgent first."""
    groups: list[list[News]] = []
    for one in news:
        place = next((group for group in groups if _belongs(one, group[0])), None)
        if place is None:
            groups.append([one])
        else:
            place.append(one)
    order = list(NewsEvent)
    found = [Group(group[0].event, tuple(group)) for group in groups]
    return sorted(found, key=lambda group: order.index(group.event))


def remembered(memory: NightlyMemory, runs: Sequence[CaseRun], build: str) -> NightlyMemory:
    """What to keep after `build`: a case that could not run keeps what was known of it; one that is gone is dropped."""
    cases = {}
    for run in runs:
        if run.state is not RunOutcome.CANNOT_TELL:
            cases[run.name] = LastSeen(build, run.state, run.signature)
        elif run.name in memory.cases:
            cases[run.name] = memory.cases[run.name]
    return NightlyMemory(SCHEMA, build, cases)


def _event(run: CaseRun, known: LastSeen | None) -> NewsEvent:
    if run.state is RunOutcome.CANNOT_TELL:
        return NewsEvent.CANNOT_TELL
    if known is None:
        return NewsEvent.FIRST
    if run.state is RunOutcome.PASSES:
        return NewsEvent.STILL_PASSES if known.state is RunOutcome.PASSES else NewsEvent.FIXED
    if known.state is RunOutcome.PASSES:
        return NewsEvent.NEWLY_FAILS
    return NewsEvent.STILL_FAILS if _alike(known.signature, run.signature) else NewsEvent.CHANGED


def _belongs(one: News, other: News) -> bool:
    if one.event is not other.event or one.run.state is not other.run.state:
        return False
    mine, others = (it.run.signature or (it.since.signature if it.since else None) for it in (one, other))
    since = (it.since.build if it.since else None for it in (one, other))
    same_start = len(set(since)) == 1 or one.event not in TURNS
    return same_start and _alike(mine, others)


def _alike(one: Signature | None, other: Signature | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.matches(other, Strength.CROSS_VERSION)
