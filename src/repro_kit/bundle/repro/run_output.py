"""Read the output of a `check.py`, or of an older `repro.py`: its verdict line, and the failure above it."""

from __future__ import annotations

import re

from repro_kit.model.failure import native
from repro_kit.model.failure.classify import (
    failure_from_signal,
    failure_from_text,
    failure_from_timeout,
    lost_validation,
)
from repro_kit.model.failure.failure import ExceptionLink, Failure, Kind, Phase, Status, Verdict
from repro_kit.model.failure.kinds import ShownBy
from repro_kit.model.failure.missing_resource import missing_resource

#: Lines that a `repro.py` ends with (docs/reference/bundle-format.md).
_ACCURACY = re.compile(r"^FAIL accuracy: (?P<message>.*)", re.MULTILINE | re.DOTALL)
_VALIDATION = re.compile(
    r"^FAIL validation: the compiled graph returns, eager raises (?P<type>[\w.]+)(?:: (?P<message>.*))?", re.M | re.S
)
_CRASH = re.compile(r"^FAIL crash: (?P<signal>.+)$", re.MULTILINE)
_TIMEOUT = re.compile(r"^FAIL timeout: ", re.MULTILINE)
_WAITS = re.compile(r"^FAIL timeout: (?P<words>the ranks wait for each other: .+)$", re.MULTILINE)
_MEASURED = re.compile(
    rf"^FAIL (?P<kind>{'|'.join(kind for kind in Kind if kind.policy.shown_by is ShownBy.VALUE)}): (?P<words>.+)$",
    re.MULTILINE,
)
_ABOVE = re.compile(r"^FAIL: the failure above is the expected one\n?", re.MULTILINE)
_EXPECTED = re.compile(r"^FAIL: ", re.MULTILINE)  # of a script, which may end with a status and no traceback
_LOG = re.compile(r"^(?:\[rank\d+\]:)?\[?[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ ", re.M)  # written by torch, also at the end
_OTHERWISE = re.compile(r"^FAILS OTHERWISE: ", re.MULTILINE)
_CANNOT = re.compile(r"^CANNOT RUN: (?P<reason>.+)$", re.MULTILINE)

CANNOT_RUN = 125  # exit status


def read_run(exit_status: int | None, output: str, how: str, seconds: float = 0.0) -> Verdict:
    """The verdict on one run: `output` is its stdout and stderr together; `how` says how it ended, in words.

    The note says why a run fails without a failure, cannot be made, or does not end as it should.
    """
    match exit_status:
        case 0:
            return Verdict(Status.PASS, seconds=seconds)
        case 1:
            return _failing(output, seconds)
        case 125 if _OTHERWISE.search(output):
            return _failing(output, seconds)
        case 125:
            cannot_run = _CANNOT.search(output)
            how = cannot_run["reason"] if cannot_run else "it gives no reason"
    return Verdict(Status.CANNOT_TELL, failure_from_text(output), seconds, how)


def _failing(output: str, seconds: float) -> Verdict:
    """The verdict on a run that failed, as expected or otherwise: signatures tell, not the words of `check.py`."""
    failure = failure_in(output)
    if failure is not None and (lacking := missing_resource(failure)):
        return Verdict(Status.CANNOT_TELL, failure, seconds, f"this machine lacks {lacking}")
    return Verdict(Status.FAIL, failure, seconds, "" if failure else "it fails without giving a reason")


def failure_in(output: str) -> Failure | None:
    """The failure in the `output` of a failing `repro.py`."""
    crash = _CRASH.search(output)
    if crash:
        name = crash["signal"] if crash["signal"].startswith("SIG") else native.signal_in(output) or "SIGABRT"
        return failure_from_signal(name, text=output[: crash.start()])
    if _TIMEOUT.search(output):
        waits, stack = _WAITS.search(output), native.faulthandler_stack(output)
        if waits:
            return Failure(Kind.DEADLOCK, text=waits["words"], stack=stack)
        return failure_from_timeout(stack, text=output)
    measured = _MEASURED.search(output)
    if measured:
        return Failure(Kind(measured["kind"]), text=measured["words"])
    validation = _VALIDATION.search(output)
    if validation:
        return lost_validation([ExceptionLink(validation["type"], _before_log(validation["message"]))])
    accuracy = _ACCURACY.search(output)
    if accuracy:
        message = _before_log(accuracy["message"])
        return Failure(Kind.ACCURACY, Phase.COMPARE, text=message, difference=native.difference_in(message))
    silent = Failure(Kind.RUNTIME_ERROR, exit_status=1, text=output) if _EXPECTED.search(output) else None
    return failure_from_text(output) or silent


def of_repro(output: str) -> str:
    """What `repro.py` printed, of the `output` of a `check.py`: without a verdict that says nothing more."""
    output = _ABOVE.sub("", output)
    accuracy = _ACCURACY.search(output)
    repeats = accuracy is not None and accuracy["message"].partition("\n")[0] in output[: accuracy.start()]
    return output[: accuracy.start()] if accuracy is not None and repeats else output


def _before_log(message: str | None) -> str:
    """`message` up to what torch logs after it, as the process ends."""
    return _LOG.split(message or "", maxsplit=1)[0]
