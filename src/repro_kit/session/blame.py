"""Whose failure is it? Eager is asked; where that does not tell, both are run again in an order without a period."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from repro_kit.case.case import Case
from repro_kit.case.stage_results import ObservedFailure
from repro_kit.model.failure.failure import Kind, Status
from repro_kit.model.failure.failure_nature import Nature
from repro_kit.model.failure.signature import Strength, signature_of
from repro_kit.model.measure.timing import wrong_result
from repro_kit.runner.findings import read_findings
from repro_kit.runner.launch import Run
from repro_kit.session import failures
from repro_kit.session.eager import EagerRun, run_eager
from repro_kit.session.options import Options
from repro_kit.session.script_run import run_overridden
from repro_kit.trace import summarise
from repro_kit.ui import Ui

ORACLE = "if it is a wrong result, tell repro-kit how to see it: --oracle 'COMMAND' (exit status 0: good)"
#: After compiled, eager: what comes and goes by turns, or every third time, fits no such order.
_AGAIN = (False, True, True)  # compiled?


@dataclass(frozen=True)
class Blame:
    """What can be said once eager was asked; `nobody`: why nobody is blamed, in a sentence (empty: work goes on)."""

    eager: Status
    found: tuple[ObservedFailure, ...]
    warnings: tuple[str, ...] = ()
    nobody: str = ""


@dataclass(frozen=True)
class _Runs:
    """How the subject is run again: `limit` in seconds without torch.compile, `copy_of` the cache that it needs."""

    case: Case
    options: Options
    ui: Ui
    limit: float
    copy_of: Path | None


def judge(
    case: Case, options: Options, ui: Ui, found: list[ObservedFailure], observed: Run, copy_of: Path | None = None
) -> Blame:
    """Run the subject without torch.compile, and say what that makes of the failure that the case is about.

    `copy_of`: the compiler cache without which it does not fail.
    """
    chosen = found[failures.index_of(options, found)]
    runs = _Runs(case, options, ui, max(options.timeout, 2 * observed.seconds), copy_of)
    ui.progress("running it without torch.compile")
    eager = run_eager(case, case.path / "observe" / "eager", runs.limit)
    if eager.passes:
        return _passed(runs, found, chosen)
    return _not_passed(found, chosen, eager, observed)


def as_wrong_result(seen: ObservedFailure) -> ObservedFailure:
    """`seen`, while eager passes: what the user's own check raised is a wrong result, unless it is about else."""
    if not _of_the_user(seen) or seen.nature in (Nature.MACHINE, Nature.TIME):
        return seen
    failure = replace(seen.failure, kind=Kind.ACCURACY)
    return replace(seen, failure=failure, signature=signature_of(failure))


def _of_the_user(seen: ObservedFailure) -> bool:
    return seen.failure.kind is Kind.RUNTIME_ERROR and seen.nature is not Nature.COMPILER


def _passed(runs: _Runs, found: list[ObservedFailure], chosen: ObservedFailure) -> Blame:
    wrong = tuple(map(as_wrong_result, found))
    if chosen.source == "measured" or not _of_the_user(chosen):
        return Blame(Status.PASS, wrong)
    if chosen.nature is Nature.COMPARISON and _differs(runs):
        return Blame(Status.PASS, wrong)
    summary = chosen.signature.summary()
    if chosen.nature is Nature.MACHINE:
        why = f"{summary} is an error of the machine, or of what the script talks to; it is no evidence"
        return Blame(Status.PASS, tuple(found), nobody=f"{why}; mend that and run it again, or {ORACLE}")
    if chosen.nature is Nature.TIME:
        why = (
            f"{summary} is the script's own exception, about how long something took, which compiling changes by itself"
        )
        return Blame(
            Status.PASS, tuple(found), nobody=f"{why}; look for --check compile-time>S or slowdown>X, or {ORACLE}"
        )
    doubt = _unconfirmed(runs, chosen)
    if doubt:
        why = f"{summary} was raised by the script itself, and was not seen again in the same way ({doubt})"
        return Blame(Status.PASS, tuple(found), nobody=f"{why}; {ORACLE}")
    return Blame(Status.PASS, wrong)


def _differs(runs: _Runs) -> bool:
    """Whether a compiled call is seen to do otherwise than the same call in eager, beside each other in one process."""
    runs.ui.progress("a check of tensors failed: comparing the compiled calls with eager")
    place = runs.case.path / "observe" / "compared"
    shutil.rmtree(place, ignore_errors=True)  # what an earlier run found would be read as this one's
    measure = {"measure": ["accuracy"]}
    run_overridden(runs.case, place, measure, timeout=runs.options.timeout, copy_of=runs.copy_of)
    calls = read_findings(place / "probe").compiled
    return wrong_result(calls) is not None or any(call.raised for call in calls)


def _unconfirmed(runs: _Runs, chosen: ObservedFailure) -> str:
    """Why two more compiled runs and one more without torch.compile do not confirm the failure; empty: they do."""
    for number, compiled in enumerate(_AGAIN, start=1):
        what = "with" if compiled else "without"
        runs.ui.progress(f"the script's own exception: running it {what} torch.compile again")
        place = runs.case.path / "observe" / f"again-{number}"
        shutil.rmtree(place, ignore_errors=True)
        if not compiled:
            eager = run_eager(runs.case, place, runs.limit)
            if not eager.passes:
                return eager.doubt or "it does not pass each time without torch.compile"
            continue
        ran = run_overridden(runs.case, place, {}, timeout=runs.options.timeout, copy_of=runs.copy_of)
        again = failures.found_in(place, ran, read_findings(place / "probe"), summarise(place / "trace"))
        if not any(chosen.signature.matches(seen.signature, Strength.REBASED) for seen in again):
            return "it does not fail so each time with torch.compile"
    return ""


def _not_passed(found: list[ObservedFailure], chosen: ObservedFailure, eager: EagerRun, observed: Run) -> Blame:
    goes_on = not _of_the_user(chosen)
    alike = [seen for seen in eager.found if seen.signature.matches(chosen.signature, Strength.REBASED)]
    ends_alike = bool(alike) or (eager.ran.timed_out and observed.timed_out)
    if ends_alike and not eager.doubt:
        return Blame(Status.FAIL, tuple(found))
    if eager.doubt:
        why = f"Whether it fails without torch.compile cannot be told: {eager.doubt}"
        status = Status.INFRA
    else:
        other = eager.found[0].signature.summary() if eager.found else "it does not end well"
        why = f"Without torch.compile the run fails as well, but differently ({other}); see observe/eager/"
        status = Status.INVALID
    if goes_on:
        return Blame(status, tuple(found), (f"{why}.",))
    return Blame(
        status, tuple(found), nobody=f"{why}; so nobody can be blamed for {chosen.signature.summary()}; {ORACLE}"
    )
