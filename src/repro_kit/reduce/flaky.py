"""How often to run a flaky program before its failure counts as absent."""

from __future__ import annotations

from dataclasses import dataclass

#: So many runs must fail alike, runs of earlier stages included, before a failure is said to occur in every run. A
#: failure that occurs in half of the runs does so by chance with a probability of 3 %.
RUNS_BEFORE_DETERMINISTIC = 5
MEASURE = 10  # runs that measure the rate of a flaky failure
MISSED = 0.05  # accepted probability that all runs of a program pass although it fails as often as the original


def chance_to_miss(failed: int, runs: int, repeats: int) -> float:
    """The probability that `repeats` runs of a program all pass, if it fails as often as the original.

    The original failed in `failed` of `runs` runs. Its rate has a uniform prior (Laplace's rule of succession), so that
    fewer runs of the original demand more runs of a candidate.
    """
    chance = 1.0
    for at in range(repeats):
        chance *= (runs - failed + 1 + at) / (runs + 2 + at)
    return chance


def repeats_for(failed: int, runs: int) -> int:
    """The fewest runs that keep `chance_to_miss` at or below `MISSED`; 1 for a program that failed in every run."""
    if failed == runs:
        return 1
    repeats = 1
    while chance_to_miss(failed, runs, repeats) > MISSED:
        repeats += 1
    return repeats


@dataclass(frozen=True)
class Tally:
    """The runs of one program, and how many of them failed with the signature."""

    failed: int = 0
    runs: int = 0

    @property
    def flaky(self) -> bool:
        """Whether only some of the runs failed."""
        return 0 < self.failed < self.runs

    @property
    def repeats(self) -> int:
        """Runs that must all pass before the failure counts as absent."""
        return repeats_for(self.failed, self.runs) if self.failed else 1

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.failed + other.failed, self.runs + other.runs)


NO_RUNS = Tally()
