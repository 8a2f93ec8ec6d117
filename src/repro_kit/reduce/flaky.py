"""How often something is run before a failure that comes and goes counts as absent, or one as coming every time."""

from __future__ import annotations

from dataclasses import dataclass

#: Runs that must all fail alike, those of earlier stages among them, before a failure is said to come every time: one
#: that comes in half of the runs is taken for such a one with a chance of 3 %.
ALIKE = 5
MEASURE = 10  # runs that tell how often a flaky failure comes
MISSED = 0.05  # the chance to take a program that fails as often as the original for one that passes


def chance_to_miss(failed: int, runs: int, repeats: int) -> float:
    """The chance that `repeats` runs all pass, of a program that fails as often as one that did in `failed` of `runs`.

    The rate is not known but for these runs; each is as likely beforehand (Laplace's rule of succession), so that few
    runs of the original mean more runs of a candidate.
    """
    chance = 1.0
    for at in range(repeats):
        chance *= (runs - failed + 1 + at) / (runs + 2 + at)
    return chance


def repeats_for(failed: int, runs: int) -> int:
    """The fewest runs that miss a failure with a chance of at most `MISSED`; one for what failed every time."""
    if failed == runs:
        return 1
    repeats = 1
    while chance_to_miss(failed, runs, repeats) > MISSED:
        repeats += 1
    return repeats


@dataclass(frozen=True)
class Tally:
    """Runs of the same thing, and how many of them failed with the signature."""

    failed: int = 0
    runs: int = 0

    @property
    def flaky(self) -> bool:
        """Whether it failed in some runs only."""
        return 0 < self.failed < self.runs

    @property
    def repeats(self) -> int:
        """Runs that must all pass before the failure counts as absent."""
        return repeats_for(self.failed, self.runs) if self.failed else 1

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.failed + other.failed, self.runs + other.runs)


NO_RUNS = Tally()
