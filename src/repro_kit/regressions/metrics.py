"""Numbers with noise, build by build: since when they are worse, by a threshold and a rank test."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from repro_kit.regressions.unit import UnitResult

#: A line of a case's output that holds a measurement: ``METRIC compile_seconds 12.5``.
_NUMBER = r"[0-9]{1,15}(?:\.[0-9]{1,15})?(?:e[+-]?[0-9]{1,2})?"
_LINE = re.compile(rf"^METRIC[ \t]+([A-Za-z][\w.-]{{0,59}})[ \t]+({_NUMBER})[ \t]*\r?$", re.MULTILINE | re.ASCII)
MOST_METRICS = 32  # of one run
#: How much larger the median must be, and how improbable that is by chance, before a number counts as worse.
WORSE = 1.2
SIGNIFICANT = 0.001
_BEFORE = 16  # samples that the newer ones are compared with, at most
_AFTER = 8  # newer samples, at most


@dataclass(frozen=True)
class Worse:
    """A number that is larger since a build: its medians before and since, and the chance of that."""

    name: str
    before: str  # the last build with the smaller numbers
    after: str  # the first build with the larger ones
    old: float
    new: float
    chance: float

    @property
    def sentence(self) -> str:
        """The change in words."""
        grown = f", {self.new / self.old:.2f} times" if self.old else ""
        return f"{self.name}: {self.old:g} → {self.new:g}{grown} since {self.after} ({self.before} was the last before)"


def metrics_in(output: str) -> tuple[tuple[str, float], ...]:
    """The measurements that a case has printed."""
    return tuple((name, float(value)) for name, value in _LINE.findall(output)[:MOST_METRICS])


def worse(verdicts: Sequence[UnitResult]) -> list[Worse]:
    """The numbers that are worse on the newest builds than on those before. `verdicts`: oldest build first."""
    series: defaultdict[str, list[tuple[str, tuple[float, ...]]]] = defaultdict(list)
    for verdict in verdicts:
        samples: defaultdict[str, list[float]] = defaultdict(list)
        for name, value in verdict.metrics:
            samples[name].append(value)
        for name, values in samples.items():
            series[name].append((verdict.build, tuple(values)))
    found = (_change(name, builds) for name, builds in sorted(series.items()))
    return [each for each in found if each is not None]


def _change(name: str, builds: Sequence[tuple[str, tuple[float, ...]]]) -> Worse | None:
    """Where the numbers grew, if that is improbable by chance: the border that parts them best."""
    best: tuple[float, Worse] | None = None
    for at in range(1, len(builds)):
        before = [value for _, values in builds[:at] for value in values]
        since = [value for _, values in builds[at:] for value in values]
        old, new = before[-_BEFORE:], since[:_AFTER]
        small, large = median(old), median(new)
        if min(large, median(since[-_AFTER:])) < small * WORSE or large <= small:
            continue
        chance = rank_test(old, new)
        if chance > SIGNIFICANT:
            continue
        left_over = _spread(before) + _spread(since)
        if best is None or left_over < best[0]:
            best = left_over, Worse(name, builds[at - 1][0], builds[at][0], small, large, chance)
    return best[1] if best else None


def _spread(values: Sequence[float]) -> float:
    """The sum of the distances from the median."""
    middle = median(values)
    return sum(abs(value - middle) for value in values)


def rank_test(old: Sequence[float], new: Sequence[float]) -> float:
    """The one-sided probability that `new` is so much larger than `old` by chance: the exact test of Mann and Whitney.

    H. B. Mann and D. R. Whitney, Annals of Mathematical Statistics 18 (1947); with equal values the ranks are shared,
    and the distribution is counted by the shift algorithm of B. Streitberg and J. Röhmel (1986).
    """
    ranks = _doubled_ranks([*old, *new])
    seen = sum(ranks[len(old) :])
    ways: list[dict[int, int]] = [{0: 1}, *({} for _ in new)]  # by the number of samples: sums of ranks, how often
    for rank in ranks:
        for count in range(len(new), 0, -1):
            for total, number in ways[count - 1].items():
                ways[count][total + rank] = ways[count].get(total + rank, 0) + number
    every = ways[len(new)]
    return sum(number for total, number in every.items() if total >= seen) / sum(every.values())


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Twice the rank of each value; equal values share the mean of their ranks."""
    ordered = sorted(values)
    first = {value: at for at, value in reversed(list(enumerate(ordered)))}
    last = {value: at for at, value in enumerate(ordered)}
    return [first[value] + last[value] + 2 for value in values]
