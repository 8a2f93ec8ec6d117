"""What the judgement of a wrong result asks of the recipe of its program."""

from __future__ import annotations

from dataclasses import replace

from repro_kit.model.failure.failure import Failure
from repro_kit.program import Program


def with_tolerance(program: Program, failure: Failure | None) -> Program:
    """`program` with the tolerance that a plain comparison with eager needs; as it is where the usual one does.

    Where eager's own rounding exceeds the usual tolerance, a right compiled result would fail too.
    """
    tolerance, recipe = failure.tolerance if failure else None, program.recipe
    if tolerance is None or recipe.rtol is not None or recipe.atol is not None:
        return program
    return replace(program, recipe=recipe.with_(rtol=tolerance[0], atol=tolerance[1]))


def with_random(program: Program) -> Program:
    """`program` with eager's random numbers: what a verdict asks for that is `fallback_random`."""
    return replace(program, recipe=program.recipe.with_(fallback_random=True))
