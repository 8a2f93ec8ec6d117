"""Changes to the recipe of a program that the comparison with eager needs."""

from __future__ import annotations

from dataclasses import replace

from repro_kit.model.failure.failure import Failure
from repro_kit.program import Program


def with_tolerance(program: Program, failure: Failure | None) -> Program:
    """`program` with the tolerance of `failure`; unchanged if the default tolerance is enough.

    If eager's own rounding error exceeds the default tolerance, a correct compiled result would fail as well.
    """
    tolerance, recipe = failure.tolerance if failure else None, program.recipe
    if tolerance is None or recipe.rtol is not None or recipe.atol is not None:
        return program
    return replace(program, recipe=recipe.with_(rtol=tolerance[0], atol=tolerance[1]))


def with_random(program: Program) -> Program:
    """`program` with eager's random numbers, which a verdict with `fallback_random` asks for."""
    return replace(program, recipe=program.recipe.with_(fallback_random=True))
