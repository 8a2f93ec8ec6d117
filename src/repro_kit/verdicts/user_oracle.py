"""The user's oracle, a command that judges a run: exit status 0 is good, 125 is no answer, any other is bad."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.errors import UsageError
from repro_kit.failure.failure import Failure, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.symptom import Symptom
from repro_kit.options.stages import OracleOptions
from repro_kit.probe.repro_probe.protocol.orders import Override
from repro_kit.runner.supervised import exit_name
from repro_kit.subject.script_run import SubjectRun, run_overridden
from repro_kit.verdicts import observed_failures

_SKIP = 125  # as for `git bisect run`
_LONGEST_LINE = 200  # characters of an output line in a message


def user_oracle_of(options: OracleOptions) -> Symptom | None:
    """The oracle that the user gave, or None. Raises ReproKitError when the options contradict each other."""
    if not options.oracle:
        if options.oracle_matches:
            raise UsageError("--oracle-matches is about the output of the oracle; give --oracle CMD too.")
        return None
    if options.check:
        raise UsageError("--check and --oracle both say what the failure is; give one of them.")
    try:
        re.compile(options.oracle_matches or "")
    except re.error as error:
        raise UsageError(
            f"--oracle-matches: {options.oracle_matches!r} is not a regular expression: {error}."
        ) from error
    return Symptom(Kind.ORACLE, text=options.oracle, pattern=options.oracle_matches or "")


def ask_user_oracle(
    case: Case,
    oracle: Symptom,
    directory: Path,
    override: Override,
    timeout: float,
    env: Mapping[str, str] | None = None,
    without: Collection[str] = (),
    on_tick: Callable[[float], None] | None = None,
) -> Verdict:
    """Run the oracle's command in the subject's directory; `override` changes how the probe compiles.

    `without`: variables of the user's to remove.
    """
    run = SubjectRun(
        directory,
        why="the oracle is asked",
        timeout=timeout,
        env=env or {},
        without=without,
        on_tick=on_tick,
        argv=["/bin/sh", "-c", oracle.text],
    )
    ended = run_overridden(case, run, override)
    if ended.timed_out:
        return Verdict(Status.CANNOT_TELL, seconds=ended.seconds, note=exit_name(ended))
    if ended.ok:
        return Verdict(Status.PASS, seconds=ended.seconds, note="good")
    if ended.exit_status == _SKIP:
        return Verdict(Status.CANNOT_TELL, seconds=ended.seconds, note="the oracle gives no answer (exit status 125)")
    if ended.exit_status in (126, 127):
        raise UsageError(f"The oracle cannot be run: {_last(directory) or exit_name(ended)}")
    output = observed_failures.tail(directory / "stdout.txt") + observed_failures.tail(directory / "stderr.txt")
    line = _telling(output, oracle.pattern)
    if line is None:
        failure = Failure(Kind.RUNTIME_ERROR, text=output[-2000:], exit_status=ended.exit_status)
        return Verdict(
            Status.FAIL, failure, ended.seconds, note=f"{exit_name(ended)}, but no output matches {oracle.pattern!r}"
        )
    words = f"bad: {line or exit_name(ended)}"
    return Verdict(
        Status.FAIL, Failure(Kind.ORACLE, text=words, exit_status=ended.exit_status), ended.seconds, note=words
    )


def _telling(output: str, pattern: str) -> str | None:
    """The line of `output` that matches `pattern`; None if no line does. Without a pattern, the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if not pattern:
        return lines[-1][:_LONGEST_LINE] if lines else ""
    return next((line[:_LONGEST_LINE] for line in lines if re.search(pattern, line)), None)


def _last(directory: Path) -> str:
    lines = observed_failures.tail(directory / "stderr.txt").strip().splitlines()
    return lines[-1] if lines else ""
