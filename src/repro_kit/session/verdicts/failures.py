"""From what a run left behind to its distinct failures, the one that matters first."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from repro_kit.case.stage_results import ObservedFailure
from repro_kit.errors import UsageError
from repro_kit.model.failure.brief import brief_failure
from repro_kit.model.failure.classify import (
    failure_from_exceptions,
    failure_from_signal,
    failure_from_text,
    failure_from_timeout,
)
from repro_kit.model.failure.failure import Failure, Kind
from repro_kit.model.failure.failure_nature import Nature, nature_of
from repro_kit.model.failure.native import faulthandler_stack
from repro_kit.model.failure.signature import Strength, signature_of
from repro_kit.model.failure.tracebacks import short
from repro_kit.runner.launch import Run
from repro_kit.runner.read_findings import Findings, UncaughtException
from repro_kit.trace import TraceSummary

_TAIL = 1_000_000  # characters of output that are looked through; one C++ error can fill 100,000
_EXCERPT = 12  # lines
#: Raised by who waits for a process: torchrun, torch.multiprocessing.spawn, subprocess.
_REPORTS = ("ChildFailedError", "ProcessExitedException", "CalledProcessError")


def found_in(place: Path, observed: Run, findings: Findings, summary: TraceSummary) -> list[ObservedFailure]:
    """The distinct failures of a run, how it ended before what it swallowed; empty when nothing failed.

    An exit status alone tells less than what was swallowed, which it most often is about, and comes last.
    """
    output = tail(place / "stderr.txt")
    ended = _ending(place, observed, findings, summary, output)
    swallowed = []
    for failed in summary.failures:
        failure = failure_from_text(failed.text) or Failure(Kind.COMPILE_ERROR, text=failed.reason)
        failure = replace(failure, compile_id=failed.compile_id)
        swallowed.append(
            ObservedFailure(failure, signature_of(failure), source="trace", rank=failed.rank, nature=Nature.COMPILER)
        )
    mute = any(one.failure.exit_status is not None for one in ended)
    found = [*swallowed, *ended] if mute else [*ended, *swallowed]
    return [replace(one, failure=brief_failure(one.failure)) for one in _distinct(found)]


def _ending(
    place: Path, observed: Run, findings: Findings, summary: TraceSummary, output: str
) -> list[ObservedFailure]:
    stack = faulthandler_stack(next(iter(findings.stacks), ""))
    if observed.timed_out:
        failure = failure_from_timeout(stack, summary.open_step, text=output)
        return [_of_exit(failure)]
    if observed.signal:
        failure = failure_from_signal(observed.signal, text=output, stack=stack, step=summary.open_step)
        return [_of_exit(failure)]
    found = _own([_seen(exception) for exception in findings.exceptions])
    if observed.ok or found:
        return found
    told = failure_from_text(output) or failure_from_text(tail(place / "stdout.txt"))
    if told is not None:
        return [ObservedFailure(told, signature_of(told), source="output", nature=nature_of(told))]
    return [_of_exit(Failure(Kind.RUNTIME_ERROR, exit_status=observed.exit_status, text=output[-2000:]))]


def _of_exit(failure: Failure) -> ObservedFailure:
    return ObservedFailure(failure, signature_of(failure), source="exit", nature=nature_of(failure))


def _seen(uncaught: UncaughtException) -> ObservedFailure:
    failure = failure_from_exceptions(uncaught.links)
    failure = replace(failure, tolerance=uncaught.tolerance or failure.tolerance)
    nature = nature_of(failure, machine=uncaught.machine, compares=uncaught.compares, clock=uncaught.clock)
    return ObservedFailure(failure, signature_of(failure), nature=nature)


def _own(uncaught: list[ObservedFailure]) -> list[ObservedFailure]:
    """Without those that only report that another process failed, where that process has told it itself."""
    own = [it for it in uncaught if not (it.failure.exceptions and short(it.failure.exceptions[0].type) in _REPORTS)]
    return own or uncaught


def _distinct(found: list[ObservedFailure]) -> list[ObservedFailure]:
    """Merge what is one failure seen twice; the trace adds the compile id to an exception."""
    distinct: list[ObservedFailure] = []
    for one in found:
        for at, known in enumerate(distinct):
            if known.signature.matches(one.signature, Strength.REBASED):
                failure = replace(known.failure, compile_id=known.failure.compile_id or one.failure.compile_id)
                again = known.count + (known.source == one.source)
                distinct[at] = replace(known, failure=failure, count=again)
                break
        else:
            distinct.append(one)
    return distinct


def index_of(number: int, found: list[ObservedFailure]) -> int:
    """The failure that the user chose; raises ReproKitError when there are not so many."""
    if number >= len(found):
        raise UsageError(f"--failure {number}: only {len(found)} distinct failures were seen, counted from 0.")
    return number


def excerpt(failure: Failure) -> str:
    """The end of a failure's traceback, for people."""
    if not failure.exceptions:
        return "\n".join(failure.text.strip().splitlines()[-_EXCERPT:])
    root = failure.exceptions[-1]
    lines = [f'  File "{frame.file}", line {frame.line}, in {frame.function}' for frame in root.frames[-4:]]
    return "\n".join([*lines, f"{root.type}: {root.message}".strip()])


def tail(path: Path) -> str:
    """The end of a text file; empty when there is none."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL))
            return file.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
