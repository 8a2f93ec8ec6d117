"""How one run ended, seen against the failure that is looked for: the one answer that every search asks for."""

from __future__ import annotations

from enum import StrEnum


class RunOutcome(StrEnum):
    """The outcome of one run. The values are those of files and of ``--json``, and stay as they are."""

    PASSES = "pass"
    FAILS_ALIKE = "same"  # with the failure that is looked for
    FAILS_OTHERWISE = "other"  # with another failure, which is no evidence for or against the one looked for
    INVALID = "invalid"  # the subject is broken in eager too
    CANNOT_TELL = "infra"  # the run could not be made, or it shows nothing

    @classmethod
    def _missing_(cls, value: object) -> RunOutcome | None:
        """Words that files of earlier versions have."""
        return _EARLIER.get(value) if isinstance(value, str) else None


_EARLIER = {
    "alike": RunOutcome.FAILS_OTHERWISE,
    "fails": RunOutcome.FAILS_ALIKE,
    "fails differently": RunOutcome.FAILS_OTHERWISE,
    "passes": RunOutcome.PASSES,
    "cannot run": RunOutcome.CANNOT_TELL,
}
