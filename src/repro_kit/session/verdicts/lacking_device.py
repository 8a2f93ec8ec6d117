"""What is told of a script that cannot run on this machine, since a device is missing."""

from __future__ import annotations

from pathlib import Path

from repro_kit.model.failure.classify import failure_from_text
from repro_kit.model.failure.failure import Failure
from repro_kit.model.failure.missing_device import missing_device
from repro_kit.model.failure.signature import in_words, signature_of
from repro_kit.session.verdicts.observed_failures import tail


def lacks_device(failure: Failure) -> str:
    """The sentence about a script that fails with `failure`, which the compiler has no part in."""
    device = missing_device(failure)
    return (
        f"The program needs {device}, which this machine lacks: {in_words(signature_of(failure), failure)}."
        f" Run this command on a machine with {device}, or on a copy of the program with 'cpu' for its devices: a"
        f" failure that shows there does not need {device}."
    )


def printed_lack(output: Path) -> Failure | None:
    """The failure at the end of the file `output`, if a missing device is its cause."""
    failure = failure_from_text(tail(output))
    return failure if failure is not None and missing_device(failure) else None
