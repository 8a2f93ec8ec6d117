"""How one run ended, seen against the failure that is looked for: the one answer that every search asks for."""

from __future__ import annotations

from enum import StrEnum

from repro_kit.model.failure.failure import Failure, Status, Verdict
from repro_kit.model.failure.signature import Signature, Strength, focused, signature_of


class RunOutcome(StrEnum):
    """The outcome of one run. The values are those of files and of ``--json``, and stay as they are."""

    PASSES = "pass"
    FAILS_ALIKE = "same"  # with the failure that is looked for
    FAILS_OTHERWISE = "other"  # with another failure, which is no evidence for or against the one looked for
    INVALID = "invalid"  # the subject is broken in eager too, or is nothing that may be run
    CANNOT_TELL = "infra"  # the run could not be made, or it shows nothing; the verdict's note says why


_OF_STATUS = {
    Status.PASS: RunOutcome.PASSES,
    Status.FAIL: RunOutcome.FAILS_OTHERWISE,
    Status.INVALID: RunOutcome.INVALID,
}


def outcome_from(status: Status, *, alike: bool) -> RunOutcome:
    """The outcome of a run that ended with `status`; `alike`: its failure is the one that is looked for."""
    return RunOutcome.FAILS_ALIKE if alike else _OF_STATUS.get(status, RunOutcome.CANNOT_TELL)


def outcome_of(verdict: Verdict, expected: Signature | None, strength: Strength) -> RunOutcome:
    """What a verdict means for somebody who looks for the failure `expected`; None: for any failure."""
    failure = verdict.failure
    alike = expected is None or (
        failure is not None and expected.matches(signature_of(focused(failure, expected)), strength)
    )
    return outcome_from(verdict.status, alike=alike and verdict.status is Status.FAIL)


def failure_alike(
    verdict: Verdict, expected: Signature | None, strength: Strength = Strength.REBASED
) -> Failure | None:
    """The failure of `verdict`, with what `expected` compares first, if the two are alike; else None."""
    if verdict.failure is None or outcome_of(verdict, expected, strength) is not RunOutcome.FAILS_ALIKE:
        return None
    return focused(verdict.failure, expected) if expected is not None else verdict.failure
