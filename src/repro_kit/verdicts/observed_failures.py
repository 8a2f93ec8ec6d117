"""The distinct failures of a run, from the files that it left; the most important failure comes first."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from signal import Signals

from repro_kit.bundle.repro.script_repro import HANG
from repro_kit.case.case import Case
from repro_kit.case.stage_results import ObservedFailure
from repro_kit.errors import UsageError
from repro_kit.failure.classify import (
    failure_from_exceptions,
    failure_from_signal,
    failure_from_text,
    failure_from_timeout,
    failures_from_text,
)
from repro_kit.failure.exception_origin import Nature, is_of_a_peer, nature_of
from repro_kit.failure.failure import Failure, Frame
from repro_kit.failure.frames import brief_failure, rises_in_compiler, torch_path
from repro_kit.failure.kinds import Kind
from repro_kit.failure.messages import is_late, printed_assertion
from repro_kit.failure.signature import Strength, signature_of
from repro_kit.failure.tracebacks import faulthandler_stack, short, signal_in, unwrap, without_torchs_log
from repro_kit.probe.repro_probe.protocol.failure_data import signal_name
from repro_kit.runner.read_findings import Findings, UncaughtException
from repro_kit.runner.supervised import Run
from repro_kit.script.failing_statements import exits_by_no_tensor
from repro_kit.trace import TraceSummary
from repro_kit.verdicts.deadlocks import STUCK_AT_END, deadlock, latest

_TAIL = 1_000_000  # characters of output that are searched; one C++ error can have 100,000
_FRAMES = 4  # frames of an excerpt
_EXCERPT = 12  # lines
#: What glibc prints where a process ends while threads of its process group run: torch's own race, in any script that
#: ends without destroy_process_group().
_ABORTED = "terminate called without an active exception"
_AT_END = ("SIGABRT", "SIGSEGV")  # what may end a process after an exception has ended its script
_END_OF_RANK = re.compile(r"exitcode\s*: (-?\d+) \(pid: (\d+)\)")  # in the report of torchrun
_SPAWNED = re.compile(r"process (\d+) terminated with signal (SIG\w+)")  # in that of torch.multiprocessing.spawn
#: Exceptions of a parent process that waited for a child: torchrun, torch.multiprocessing.spawn, subprocess.
_OF_SPAWN = ("ProcessExitedException", "ProcessRaisedException")
_REPORTS = ("ChildFailedError", *_OF_SPAWN, "CalledProcessError")


def found_in(directory: Path, observed: Run, findings: Findings, summary: TraceSummary) -> list[ObservedFailure]:
    """The distinct failures of a run: first the one that ended it, then the ones that the program caught.

    A bare exit status, and a launcher's report of one, come last: they say less than a caught failure, which is most
    often their cause. So do ranks that wait in vain, after what some ranks caught and others did not meet.
    """
    output = tail(directory / "stderr.txt")
    ended = _ending(directory, observed, findings, summary, output)
    swallowed = []
    for failed in summary.failures:
        failure = failure_from_text(failed.text) or Failure(Kind.COMPILE_ERROR, text=failed.reason)
        failure = replace(failure, compile_id=failed.compile_id)
        swallowed.append(
            ObservedFailure(failure, signature_of(failure), source="trace", rank=failed.rank, nature=Nature.COMPILER)
        )
    if observed.ok:
        swallowed += _logged(directory)
    parted: list[ObservedFailure] = []
    if any(_is_wait(one.failure) for one in ended):
        parted = [one for one in swallowed if _of_some_ranks(one, swallowed, len(latest(findings)))]
        swallowed = [one for one in swallowed if one not in parted]
    mute = any(one.failure.exit_status is not None or _is_report(one.failure) for one in ended)
    failures = [*parted, *swallowed, *ended] if mute else [*parted, *ended, *swallowed]
    distinct = [_ended_by_alarm(failed) if observed.seconds >= HANG else failed for failed in _distinct(failures)]
    return [replace(failed, failure=brief_failure(failed.failure)) for failed in distinct]


def _ended_by_alarm(failed: ObservedFailure) -> ObservedFailure:
    """`failed` as the hang that it is, where the script's own alarm ended a compile by an exception.

    The place that the alarm interrupts is chance, and nothing that fails alone has the alarm.
    """
    if not (failed.failure.exceptions and failed.failure.stack):
        return failed
    root = failed.failure.exceptions[-1]
    hang = failure_from_timeout(failed.failure.stack, text=f"{root.type}: {root.message}")
    return replace(failed, failure=replace(hang, compile_id=failed.failure.compile_id), signature=signature_of(hang))


def _logged(directory: Path) -> list[ObservedFailure]:
    """What compiled code raised in a program that caught it, printed its traceback, and went on to its end.

    A traceback in torch's own log is left out: the compiler prints failures that it gets over.
    """
    texts = [without_torchs_log(tail(directory / name)) for name in ("stderr.txt", "stdout.txt")]
    failures = [failure for text in texts for failure in failures_from_text(text) if failure.exceptions]
    return [
        ObservedFailure(failure, signature_of(failure), source="log", nature=Nature.COMPILER)
        for failure in failures
        if nature_of(failure) is Nature.COMPILER and failure.exceptions[-1].frames
    ]


def _is_wait(failure: Failure) -> bool:
    """Whether ranks wait in vain: for ever, or until a time-out of their process group."""
    return failure.kind is Kind.DEADLOCK or is_of_a_peer(failure)


def _of_some_ranks(caught: ObservedFailure, swallowed: Sequence[ObservedFailure], size: int) -> bool:
    """Whether some of the `size` ranks met a failure, and others did not: from there on, they do different things."""
    alike = [one for one in swallowed if one.signature.matches(caught.signature, Strength.REBASED)]
    return 0 < len({one.rank for one in alike if one.rank is not None}) < size


def _ending(
    directory: Path, observed: Run, findings: Findings, summary: TraceSummary, output: str
) -> list[ObservedFailure]:
    stack = _stack(findings, summary)
    if observed.timed_out:
        states = latest(findings)
        waits = deadlock(states, {state.pid for state in states} - findings.ended, STUCK_AT_END)
        if waits:
            return [_of_exit(Failure(Kind.DEADLOCK, text=waits))]
        failure = failure_from_timeout(stack, summary.open_step, text=output)
        return [_of_exit(failure)]
    before = [each for each in findings.exceptions if each.pid in findings.ended]
    if observed.signal in _AT_END and before:  # a thread was still running when the process ended
        return [_with_assertion(seen, output) for seen in _own([_seen(each) for each in before])]
    if observed.signal:
        failure = failure_from_signal(observed.signal, text=output, stack=stack, step=summary.open_step)
        return [_of_exit(failure)]
    exceptions = [_with_assertion(seen, output) for seen in _own([_seen(each) for each in findings.exceptions])]
    if _ABORTED in output and aborted_at_exit(findings) and all(_is_report(seen.failure) for seen in exceptions):
        all_ended = all(state.pid in findings.ended for state in latest(findings))
        return [] if all_ended else [replace(seen, nature=Nature.MACHINE) for seen in exceptions]
    of_ranks = {state.pid for state in findings.ranks}
    for pid, signal in crashes(findings).items():
        follows = exceptions or pid in of_ranks  # else what a process of the script's own does, which may be expected
        if not observed.ok and follows and all(_is_consequence(seen.failure) for seen in exceptions):
            stack = faulthandler_stack(findings.stacks.get(pid, ""))
            step = summary.open_steps.get(pid)
            return [_of_exit(failure_from_signal(signal, text=output, stack=stack, step=step))]
    if observed.ok or any(not _is_report(seen.failure) for seen in exceptions):
        return exceptions
    printed = _printed(output) or _printed(tail(directory / "stdout.txt"))
    if printed is not None:
        return [ObservedFailure(printed, signature_of(printed), source="output", nature=nature_of(printed))]
    if exceptions:
        return exceptions
    return [_of_exit(Failure(Kind.RUNTIME_ERROR, exit_status=observed.exit_status, text=output[-2000:]))]


def _with_assertion(seen: ObservedFailure, output: str) -> ObservedFailure:
    """`seen` with what a kernel printed before it ended, since the exception does not say it."""
    if not is_late(unwrap(seen.failure.exceptions)):
        return seen
    return replace(seen, failure=replace(seen.failure, text=printed_assertion(output)))


def _stack(findings: Findings, summary: TraceSummary) -> tuple[Frame, ...]:
    """Where the program was, outermost frame first: in a process that compiled, else in a rank, else in the first."""
    ranks = {process.pid for process in findings.processes if process.rank is not None}
    pids = sorted(findings.stacks, key=lambda pid: (pid not in summary.open_steps, pid not in ranks))
    return faulthandler_stack(findings.stacks[pids[0]]) if pids else ()


def _printed(text: str) -> Failure | None:
    """The last failure in `text`, where that is more than a launcher's report."""
    failure = failure_from_text(text)
    return None if failure is None or _is_report(failure) else failure


def _of_exit(failure: Failure) -> ObservedFailure:
    return ObservedFailure(failure, signature_of(failure), source="exit", nature=nature_of(failure))


def parted_by(failures: Sequence[ObservedFailure]) -> str:
    """A sentence about the caught failure that comes before a hang of ranks; empty where none does."""
    first, *others = failures
    if first.source != "trace" or not any(_is_wait(other.failure) for other in others):
        return ""
    return (
        f"Rank {first.rank} caught {first.signature.summary()}, which not every rank met, before the ranks came to "
        "wait for each other: the wait may follow from it."
    )


def failure_of(uncaught: UncaughtException) -> Failure:
    """The failure that an uncaught exception is."""
    failure = failure_from_exceptions(uncaught.links)
    return replace(failure, tolerance=uncaught.tolerance or failure.tolerance)


def _seen(uncaught: UncaughtException) -> ObservedFailure:
    failure = failure_of(uncaught)
    if rises_in_compiler(uncaught.interrupted):
        failure = replace(failure, stack=uncaught.interrupted)
    nature = nature_of(failure, machine=uncaught.machine, compares=uncaught.compares, clock=uncaught.clock)
    return ObservedFailure(failure, signature_of(failure), nature=nature)


def _own(uncaught: list[ObservedFailure]) -> list[ObservedFailure]:
    """`uncaught` without what follows from another failure in it: a parent's report, and what a rank's peers raise."""
    children = [observed for observed in uncaught if not _is_report(observed.failure)] or uncaught
    return [observed for observed in children if not is_of_a_peer(observed.failure)] or children


def _is_report(failure: Failure) -> bool:
    return bool(failure.exceptions) and short(failure.exceptions[0].type) in _REPORTS


def _is_consequence(failure: Failure) -> bool:
    return _is_report(failure) or is_of_a_peer(failure)


def crashes(findings: Findings) -> Mapping[int, str]:
    """The signals that ended the processes of ranks, by process.

    SIGTERM, by which a launcher ends the ranks that are left, is not among them.
    """
    seen = {pid: signal for pid, stack in findings.stacks.items() if (signal := signal_in(stack))}
    ends = {pid: signal_name(-int(status)) for status, pid in _reported_ends(findings) if status.startswith("-")}
    pids = {str(state.rank): state.pid for state in latest(findings)}
    spawned = {pids.get(rank, 0): name for report in _reports(findings) for rank, name in _SPAWNED.findall(report)}
    return {pid: name for pid, name in {**ends, **spawned, **seen}.items() if name != Signals.SIGTERM.name}


def ended_by_launcher(findings: Findings) -> frozenset[int]:
    """The processes of ranks that the launcher ended because another rank had failed.

    torchrun names them. torch.multiprocessing.spawn ends every rank that is left, and names only the one that failed.
    """
    named = {pid for status, pid in _reported_ends(findings) if status == str(-Signals.SIGTERM)}
    types = {short(uncaught.links[0].type) for uncaught in findings.exceptions if uncaught.links}
    if types & set(_OF_SPAWN):
        told = {uncaught.pid for uncaught in findings.exceptions} | set(crashes(findings)) | findings.ended
        named |= {state.pid for state in latest(findings)} - told
    return frozenset(named)


def failed_first(findings: Findings) -> tuple[int, ...]:
    """The processes that did not fail because of another one: those that raised, then those that crashed."""
    raised = [uncaught.pid for uncaught in findings.exceptions if not _is_consequence(failure_of(uncaught))]
    return tuple(dict.fromkeys([*raised, *crashes(findings)]))


def _reports(findings: Findings) -> list[str]:
    """What launchers say of their ranks."""
    return [uncaught.links[0].message for uncaught in findings.exceptions if _is_report(failure_of(uncaught))]


def _reported_ends(findings: Findings) -> list[tuple[str, int]]:
    """The exit status and the process of each rank that torchrun reports."""
    return [(status, int(pid)) for report in _reports(findings) for status, pid in _END_OF_RANK.findall(report)]


def aborted_at_exit(findings: Findings) -> frozenset[int]:
    """The ranks' processes that ended their scripts and were aborted after that, where no rank failed otherwise."""
    ends = _reported_ends(findings)
    aborted = frozenset(pid for status, pid in ends if status == "-6" and pid in findings.ended)
    return aborted if all(pid in aborted or status == "-15" for status, pid in ends) else frozenset()


def _distinct(failures: list[ObservedFailure]) -> list[ObservedFailure]:
    """Merge failures that are the same; the trace adds the compile id to an exception."""
    distinct: list[ObservedFailure] = []
    for observed in failures:
        for number, earlier in enumerate(distinct):
            if earlier.signature.matches(observed.signature, Strength.REBASED):
                failure = replace(earlier.failure, compile_id=earlier.failure.compile_id or observed.failure.compile_id)
                again = earlier.count + (earlier.source == observed.source)
                distinct[number] = replace(earlier, failure=failure, count=again)
                break
        else:
            distinct.append(observed)
    return distinct


def index_of(number: int, failures: list[ObservedFailure]) -> int:
    """The index of the failure that the user chose. Raises ReproKitError when there are fewer failures."""
    if number >= len(failures):
        seen = "; ".join(f"{at}: {failure.signature.summary()}" for at, failure in enumerate(failures))
        raise UsageError(f"--failure {number}: there is no such failure. The run had {seen}.")
    return number


def excerpt(failure: Failure) -> str:
    """The end of the traceback of a failure, for a message, with the user's own innermost line."""
    if failure.exceptions:
        root = failure.exceptions[-1]
        return "\n".join([*_lines(root.frames), f"{root.type}: {root.message}".strip()])
    if failure.kind.policy.hangs and failure.stack:
        return "\n".join(_lines(failure.stack))
    return "\n".join(failure.text.strip().splitlines()[-_EXCERPT:])


def _lines(frames: Sequence[Frame]) -> list[str]:
    users = [frame for frame in frames[:-_FRAMES] if torch_path(frame.file) is None]
    return [
        f'  File "{frame.file}", line {frame.line}, in {frame.function}' for frame in (*users[-1:], *frames[-_FRAMES:])
    ]


def tail(path: Path) -> str:
    """The end of a text file; empty if the file does not exist."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL))
            return file.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def asks_about_no_tensor(case: Case) -> bool:
    """Whether the script's exits, of which the probe sees no condition, ask about no tensor."""
    subject = case.file.subject
    path = Path(subject.cwd, subject.argv[0]) if subject.form == "script" and subject.argv else None
    return (
        path is not None and path.is_file() and exits_by_no_tensor(path.read_text(encoding="utf-8", errors="replace"))
    )
