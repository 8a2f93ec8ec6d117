"""Whose failure is it? A graph that fails alone tells; else eager is asked; else both are run again, in turns.

`begin` judges by what one run shows, and leaves open what a graph may settle; `finish` runs the subject again.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.stage_results import Observation, ObservedFailure
from repro_kit.model.failure.failure import Kind, Status
from repro_kit.model.failure.failure_nature import Nature
from repro_kit.model.failure.signature import Strength, signature_of
from repro_kit.model.measure.timing import wrong_result
from repro_kit.probe.repro_probe.protocol.orders import Override
from repro_kit.runner.findings import read_findings
from repro_kit.runner.launch import Run
from repro_kit.session.options import ObserveOptions
from repro_kit.session.script.script_run import run_overridden
from repro_kit.session.verdicts import observed_failures
from repro_kit.session.verdicts.eager_run import EagerRun, run_eager
from repro_kit.trace import summarise
from repro_kit.ui import Ui

ORACLE = "if it is a wrong result, tell repro-kit how to see it: --oracle 'COMMAND' (exit status 0: good)"
#: After compiled, eager: what comes and goes by turns, or every third time, fits no such order.
_AGAIN = (False, True, True)  # compiled?


@dataclass(frozen=True)
class Blame:
    """What can be said so far; `eager` is None where it was not asked.

    `nobody`: why nobody is blamed, in a sentence (empty: work goes on).
    """

    eager: Status | None
    failures: tuple[ObservedFailure, ...]
    warnings: tuple[str, ...] = ()
    nobody: str = ""
    settled: bool = True  # False: a graph that fails alone would settle it, else `finish` does


@dataclass(frozen=True)
class _Runs:
    """How the subject is run again; `copy_of` is the compiler cache that it needs."""

    case: Case
    ui: Ui
    timeout: float  # seconds for a run
    limit: float  # seconds for a run without torch.compile
    copy_of: Path | None


def begin(
    case: Case,
    options: ObserveOptions,
    ui: Ui,
    failures: list[ObservedFailure],
    observed: Run,
    copy_of: Path | None = None,
) -> Blame:
    """What the observed run makes of the failure that the case is about; eager is asked only where no graph can tell.

    `copy_of`: the compiler cache without which it does not fail.
    """
    chosen = failures[observed_failures.index_of(options.failure, failures)]
    if copy_of is None and _a_graph_may_tell(chosen):
        return Blame(None, tuple(failures), settled=False)
    runs = _Runs(case, ui, options.timeout, max(options.timeout, 2 * observed.seconds), copy_of)
    eager = _eager(runs)
    if not eager.passes:
        return _not_passed(failures, chosen, eager, timed_out=observed.timed_out)
    if copy_of is None and _of_the_user(chosen) and chosen.nature is Nature.OPEN:
        return Blame(Status.PASS, tuple(failures), settled=False)
    return _passed(runs, failures, chosen)


def finish(case: Case, timeout: float, ui: Ui, observation: Observation) -> Blame:
    """What further runs of the subject make of a failure that no graph alone has settled."""
    failures = list(observation.failures)
    chosen = failures[case.file.failure_index]
    runs = _Runs(case, ui, timeout, max(timeout, 2 * observation.seconds), None)
    if observation.eager is None:
        eager = _eager(runs)
        if not eager.passes:
            return _not_passed(failures, chosen, eager, timed_out=observation.timed_out)
    return _passed(runs, failures, chosen)


def _a_graph_may_tell(chosen: ObservedFailure) -> bool:
    """Whether a graph that fails alike alone would show that the compiler is to blame, without a run in eager."""
    if chosen.source == "measured":
        return chosen.failure.kind is Kind.ACCURACY
    return not _of_the_user(chosen) or chosen.nature is Nature.COMPARISON


def _eager(runs: _Runs) -> EagerRun:
    runs.ui.progress("running it without torch.compile")
    return run_eager(runs.case, runs.case.path / "observe" / "eager", runs.limit)


def as_wrong_result(failure: ObservedFailure) -> ObservedFailure:
    """`failure`, while eager passes: what the user's own check raised is a wrong result, unless it is about else."""
    if not _of_the_user(failure) or failure.nature in (Nature.MACHINE, Nature.TIME):
        return failure
    wrong = replace(failure.failure, kind=Kind.ACCURACY)
    return replace(failure, failure=wrong, signature=signature_of(wrong))


def _of_the_user(failure: ObservedFailure) -> bool:
    return failure.failure.kind is Kind.RUNTIME_ERROR and failure.nature is not Nature.COMPILER


def _passed(runs: _Runs, failures: list[ObservedFailure], chosen: ObservedFailure) -> Blame:
    wrong = tuple(map(as_wrong_result, failures))
    if chosen.source == "measured" or not _of_the_user(chosen):
        return Blame(Status.PASS, wrong)
    if chosen.nature is Nature.COMPARISON and _differs(runs):
        return Blame(Status.PASS, wrong)
    summary = chosen.signature.summary()
    if chosen.nature is Nature.MACHINE:
        why = f"{summary} is an error of the machine, or of what the script talks to; it is no evidence"
        return Blame(Status.PASS, tuple(failures), nobody=f"{why}; mend that and run it again, or {ORACLE}")
    if chosen.nature is Nature.TIME:
        why = (
            f"{summary} is the script's own exception, about how long something took, which compiling changes by itself"
        )
        return Blame(
            Status.PASS, tuple(failures), nobody=f"{why}; look for --check compile-time>S or slowdown>X, or {ORACLE}"
        )
    doubt = _unconfirmed(runs, chosen)
    if doubt:
        why = f"{summary} was raised by the script itself, and was not seen again in the same way ({doubt})"
        return Blame(Status.PASS, tuple(failures), nobody=f"{why}; {ORACLE}")
    return Blame(Status.PASS, wrong)


def _differs(runs: _Runs) -> bool:
    """Whether a compiled call is seen to do otherwise than the same call in eager, beside each other in one process."""
    runs.ui.progress("a check of tensors failed: comparing the compiled calls with eager")
    directory = runs.case.path / "observe" / "compared"
    shutil.rmtree(directory, ignore_errors=True)  # what an earlier run found would be read as this one's
    measure: Override = {"measure": ["accuracy"]}
    why = "a check of tensors failed: the compiled calls are compared with eager"
    run_overridden(runs.case, directory, measure, why=why, timeout=runs.timeout, copy_of=runs.copy_of)
    calls = read_findings(directory / "probe").compiled
    return wrong_result(calls) is not None or any(call.raised for call in calls)


def _unconfirmed(runs: _Runs, chosen: ObservedFailure) -> str:
    """Why two more compiled runs and one more in eager do not confirm the failure; empty: they do."""
    for number, compiled in enumerate(_AGAIN, start=1):
        how = "with" if compiled else "without"
        runs.ui.progress(f"the script's own exception: running it {how} torch.compile again")
        directory = runs.case.path / "observe" / f"again-{number}"
        shutil.rmtree(directory, ignore_errors=True)
        if not compiled:
            eager = run_eager(runs.case, directory, runs.limit)
            if not eager.passes:
                return eager.doubt or "it does not pass each time without torch.compile"
            continue
        why = "the script's own exception: does it come again?"
        ended = run_overridden(runs.case, directory, {}, why=why, timeout=runs.timeout, copy_of=runs.copy_of)
        again = observed_failures.found_in(
            directory, ended, read_findings(directory / "probe"), summarise(directory / "trace")
        )
        if not any(chosen.signature.matches(failure.signature, Strength.REBASED) for failure in again):
            return "it does not fail so each time with torch.compile"
    return ""


def _not_passed(failures: list[ObservedFailure], chosen: ObservedFailure, eager: EagerRun, *, timed_out: bool) -> Blame:
    goes_on = not _of_the_user(chosen)
    alike = [failure for failure in eager.failures if failure.signature.matches(chosen.signature, Strength.REBASED)]
    ends_alike = bool(alike) or (eager.run.timed_out and timed_out)
    if ends_alike and not eager.doubt:
        return Blame(Status.FAIL, tuple(failures))
    if eager.doubt:
        why = f"Whether it fails without torch.compile cannot be told: {eager.doubt}"
        status = Status.CANNOT_TELL
    else:
        how_it_fails = eager.failures[0].signature.summary() if eager.failures else "it does not end well"
        why = f"Without torch.compile the run fails as well, but differently ({how_it_fails}); see observe/eager/"
        status = Status.INVALID
    if goes_on:
        return Blame(status, tuple(failures), (f"{why}.",))
    return Blame(
        status, tuple(failures), nobody=f"{why}; so nobody can be blamed for {chosen.signature.summary()}; {ORACLE}"
    )
