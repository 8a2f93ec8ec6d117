"""What changed for a set of cases between one build and the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from repro_kit.failure.signature import RunOutcome, Signature, Strength
from repro_kit.regressions.unit import WORDS, UnitResult

_EXTRA_RUNS = 2  # further runs of a case before its result counts as changed

#: The result of each case, by name, on the last build that could judge it.
LastNight = Mapping[str, UnitResult]


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
class News:
    """The change of one case, and since which result."""

    name: str
    result: UnitResult
    event: NewsEvent
    since: UnitResult | None = None

    @property
    def failure(self) -> Signature | None:
        """The failure; for a fixed case, the failure before."""
        return self.result.failure or (self.since.failure if self.since else None)


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
        return [item.name for item in self.news]

    @property
    def signature(self) -> str:
        """The failure's signature in one line."""
        first = self.news[0]
        return first.failure.summary() if first.failure else first.result.note


def compare(last: LastNight, results: Mapping[str, UnitResult]) -> list[News]:
    """The change of each case since it was last judged."""
    return [News(name, result, _event(result, last.get(name)), last.get(name)) for name, result in results.items()]


def settled(before: UnitResult | None, results: Sequence[UnitResult]) -> UnitResult | None:
    """What the results of one case on one build say together; None when another run is due.

    A changed result is repeated: a flaky failure is not news.
    """
    if not results:
        return None
    first, *again = results
    if _event(first, before) not in TURNS:
        return first
    for result in again:
        if result.outcome is not RunOutcome.CANNOT_TELL and _event(result, before) not in TURNS:
            return replace(result, seen=f"comes and goes: in another run it {WORDS[first.outcome]}")
    return first if len(again) >= _EXTRA_RUNS else None


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


def remembered(last: LastNight, results: Mapping[str, UnitResult]) -> dict[str, UnitResult]:
    """What the next night compares with. A case that could not run keeps its result; one that is gone is dropped."""
    kept = {name: last.get(name) if _is_unknown(result) else result for name, result in results.items()}
    return {name: result for name, result in kept.items() if result is not None}


def _is_unknown(result: UnitResult) -> bool:
    return result.outcome is RunOutcome.CANNOT_TELL


def _event(result: UnitResult, before: UnitResult | None) -> NewsEvent:
    if _is_unknown(result):
        return NewsEvent.CANNOT_TELL
    if before is None:
        return NewsEvent.FIRST
    passed = before.outcome is RunOutcome.PASSES
    if result.outcome is RunOutcome.PASSES:
        return NewsEvent.STILL_PASSES if passed else NewsEvent.FIXED
    if passed:
        return NewsEvent.NEWLY_FAILS
    return NewsEvent.STILL_FAILS if _alike(before.failure, result.failure) else NewsEvent.CHANGED


def _belongs(first: News, second: News) -> bool:
    if first.event is not second.event or first.result.outcome is not second.result.outcome:
        return False
    since = {item.since.build if item.since else None for item in (first, second)}
    same_start = len(since) == 1 or first.event not in TURNS
    return same_start and _alike(first.failure, second.failure)


def _alike(first: Signature | None, second: Signature | None) -> bool:
    if first is None or second is None:
        return first is second
    return first.matches(second, Strength.CROSS_VERSION)
