"""A verdict is held against the failure that is looked for in one place."""

import pytest

from repro_kit.failure.failure import ExceptionLink, Failure, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, Signature, Strength, failure_alike, outcome_of, signature_of
from repro_kit.serialize import to_data


def failure(exception: str) -> Failure:
    return Failure(Kind.RUNTIME_ERROR, exceptions=(ExceptionLink(exception, "no such thing"),))


EXPECTED = signature_of(failure("KeyError"))


@pytest.mark.parametrize(
    ("verdict", "expected", "outcome"),
    [
        (Verdict(Status.PASS), EXPECTED, RunOutcome.PASSES),
        (Verdict(Status.FAIL, failure("KeyError")), EXPECTED, RunOutcome.FAILS_ALIKE),
        (Verdict(Status.FAIL, failure("OSError")), EXPECTED, RunOutcome.FAILS_OTHERWISE),
        (Verdict(Status.FAIL, failure("OSError")), None, RunOutcome.FAILS_ALIKE),
        (Verdict(Status.FAIL), EXPECTED, RunOutcome.FAILS_OTHERWISE),  # a failure that tells nothing of itself
        (Verdict(Status.INVALID, failure("KeyError")), EXPECTED, RunOutcome.INVALID),
        (Verdict(Status.CANNOT_TELL, failure("KeyError")), None, RunOutcome.CANNOT_TELL),
        (Verdict(Status.FLAKY), EXPECTED, RunOutcome.CANNOT_TELL),
        (Verdict(Status.NOT_RUN), EXPECTED, RunOutcome.CANNOT_TELL),
    ],
)
def test_a_verdict_is_held_against_the_failure_that_is_looked_for(
    verdict: Verdict, expected: Signature | None, outcome: RunOutcome
) -> None:
    assert outcome_of(verdict, expected, Strength.REBASED) is outcome
    assert (failure_alike(verdict, expected) is not None) is (outcome is RunOutcome.FAILS_ALIKE)


def test_what_is_written_stays_as_it_was() -> None:
    assert to_data([*Status]) == ["pass", "fail", "invalid", "flaky", "infra", "skipped"]
    assert to_data([*RunOutcome]) == ["pass", "same", "other", "invalid", "infra"]
