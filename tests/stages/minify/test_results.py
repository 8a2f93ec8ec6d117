"""What a reduction writes of the variants of its result."""

from __future__ import annotations

from repro_kit.diagnosis.answers import TriedVariant
from repro_kit.reduce import RunOutcome
from repro_kit.reduce.reduction import Removal
from repro_kit.stages.minify.results import tried_variants


def test_a_variant_that_is_no_valid_program_or_was_not_judged_is_left_out() -> None:
    judged = [
        Removal("size 2 for 1", RunOutcome.INVALID),
        Removal("torch.float64 for `x`", RunOutcome.FAILS_ALIKE),
        Removal("the default dtype for `y`", RunOutcome.PASSES),
        Removal("without config", None),
        Removal("size 3 for 2", RunOutcome.FAILS_OTHERWISE, note="ValueError: <path>"),
    ]
    assert tried_variants(judged) == (
        TriedVariant("torch.float64 for `x`", "fails"),
        TriedVariant("the default dtype for `y`", "passes"),
        TriedVariant("size 3 for 2", "fails otherwise (ValueError: …)"),
    )
