"""How often a program is run before a failure that comes and goes counts as absent."""

from __future__ import annotations

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
