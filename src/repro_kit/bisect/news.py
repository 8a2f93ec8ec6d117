"""What changed for a set of cases between one build and the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from repro_kit.model.failure.signature import Signature, Strength
from repro_kit.model.run_outcome import RunOutcome

SCHEMA = 1
_EXTRA_RUNS = 2  # further runs of a case before its result counts as changed

#: The outcome of a case on a build, in words.
WORDS = {
    RunOutcome.FAILS_ALIKE: "fails",
    RunOutcome.FAILS_OTHERWISE: "fails differently",
    RunOutcome.PASSES: "passes",
    RunOutcome.CANNOT_TELL: "cannot run",
}


class NewsEvent(StrEnum):
    """The change of a case since the last build that could judge it; most urgent first."""

    NEWLY_FAILS = "newly fails"
    CHANGED = "changed its signature"
    FIXED = "newly fixed"
    FIRST = "seen for the first time"
    STILL_FAILS = "still fails"
    STILL_PASSES = "still passes"
    CANNOT_TELL = "cannot run"


#: Changes that a person must look at.
ALARMS = (NewsEvent.NEWLY_FAILS, NewsEvent.CHANGED)
#: Changes that a bisection can explain.
TURNS = (NewsEvent.NEWLY_FAILS, NewsEvent.CHANGED, NewsEvent.FIXED)


@dataclass(frozen=True)
class CaseRun:
    """The outcome of one case on one build."""

    name: str
    state: RunOutcome
    signature: Signature | None = None
    detail: str = ""
    seconds: float = 0.0
    note: str = ""  # about the reliability of the outcome

    @property
    def shown(self) -> str:
        """The outcome in words."""
        failure = self.signature.summary() if self.signature else self.detail
        return "; ".join(filter(None, [failure, self.note]))


@dataclass(frozen=True)
class LastSeen:
    """The outcome of a case on the last build that could judge it."""

    build: str
    state: RunOutcome
    signature: Signature | None = None


@dataclass(frozen=True)
class NightlyMemory:
    """The outcomes that are kept between two nightly runs."""

    schema: int = SCHEMA
    build: str | None = None  # the last build
    cases: Mapping[str, LastSeen] = field(default_factory=dict)


@dataclass(frozen=True)
class News:
    """The change of one case, and since which build."""

    run: CaseRun
    event: NewsEvent
    since: LastSeen | None = None


@dataclass(frozen=True)
class Group:
    """Cases that changed in the same way and with one signature: one regression gives one report."""

    event: NewsEvent
    news: tuple[News, ...]
    bisected: str = ""  # the result of the bisection, in one sentence
    answer: str = ""  # the same as Markdown
    facts: tuple[tuple[str, str], ...] = ()  # the same in parts: (name, text)

    @property
    def names(self) -> list[str]:
        """The names of the cases."""
        return [item.run.name for item in self.news]

    @property
    def signature(self) -> str:
        """The failure's signature in one line; for a fixed case, that of the failure before."""
        first = self.news[0]
        gone = first.since.signature if first.since else None
        signature = first.run.signature or gone
        return signature.summary() if signature else first.run.detail


def compare(memory: NightlyMemory, runs: Sequence[CaseRun]) -> list[News]:
    """The change of each case since it was last judged."""
    return [News(run, _event(run, memory.cases.get(run.name)), memory.cases.get(run.name)) for run in runs]


def settled(memory: NightlyMemory, runs: Sequence[CaseRun]) -> CaseRun | None:
    """What the runs of one case on one build say together; None when another run is due.

    A changed result is repeated: a failure that comes and goes is no news.
    """
    if not runs:
        return None
    first, *again = runs
    if not _turned(memory, first):
        return first
    for run in again:
        if run.state is not RunOutcome.CANNOT_TELL and not _turned(memory, run):
            return replace(run, note=f"comes and goes: in another run it {WORDS[first.state]}")
    return first if len(again) >= _EXTRA_RUNS else None


def _turned(memory: NightlyMemory, run: CaseRun) -> bool:
    (news,) = compare(memory, [run])
    return news.event in TURNS


def grouped(news: Sequence[News]) -> list[Group]:
    """The cases grouped by change and signature, most urgent first."""
    groups: list[list[News]] = []
    for item in news:
        group = next((group for group in groups if _belongs(item, group[0])), None)
        if group is None:
            groups.append([item])
        else:
            group.append(item)
    order = list(NewsEvent)
    result = [Group(group[0].event, tuple(group)) for group in groups]
    return sorted(result, key=lambda group: order.index(group.event))


def remembered(memory: NightlyMemory, runs: Sequence[CaseRun], build: str) -> NightlyMemory:
    """The memory after `build`. A case that could not run keeps its last outcome; a case that is gone is dropped."""
    cases = {}
    for run in runs:
        if run.state is not RunOutcome.CANNOT_TELL:
            cases[run.name] = LastSeen(build, run.state, run.signature)
        elif run.name in memory.cases:
            cases[run.name] = memory.cases[run.name]
    return NightlyMemory(SCHEMA, build, cases)


def _event(run: CaseRun, last: LastSeen | None) -> NewsEvent:
    if run.state is RunOutcome.CANNOT_TELL:
        return NewsEvent.CANNOT_TELL
    if last is None:
        return NewsEvent.FIRST
    if run.state is RunOutcome.PASSES:
        return NewsEvent.STILL_PASSES if last.state is RunOutcome.PASSES else NewsEvent.FIXED
    if last.state is RunOutcome.PASSES:
        return NewsEvent.NEWLY_FAILS
    return NewsEvent.STILL_FAILS if _alike(last.signature, run.signature) else NewsEvent.CHANGED


def _belongs(first: News, second: News) -> bool:
    if first.event is not second.event or first.run.state is not second.run.state:
        return False
    mine, others = (item.run.signature or (item.since.signature if item.since else None) for item in (first, second))
    since = (item.since.build if item.since else None for item in (first, second))
    same_start = len(set(since)) == 1 or first.event not in TURNS
    return same_start and _alike(mine, others)


def _alike(first: Signature | None, second: Signature | None) -> bool:
    if first is None or second is None:
        return first is second
    return first.matches(second, Strength.CROSS_VERSION)
