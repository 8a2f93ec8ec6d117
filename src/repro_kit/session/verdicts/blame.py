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
from repro_kit.runner.launch import Run
from repro_kit.runner.read_findings import read_findings
from repro_kit.session.options import ObserveOptions
from repro_kit.session.script.script_run import run_overridden
from repro_kit.session.verdicts import failures
from repro_kit.session.verdicts.eager import EagerRun, run_eager
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
    found: tuple[ObservedFailure, ...]
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
    found: list[ObservedFailure],
    observed: Run,
    copy_of: Path | None = None,
) -> Blame:
    """What the observed run makes of the failure that the case is about; eager is asked only where no graph can tell.

    `copy_of`: the compiler cache without which it does not fail.
    """
    chosen = found[failures.index_of(options.failure, found)]
    if copy_of is None and _a_graph_may_tell(chosen):
        return Blame(None, tuple(found), settled=False)
    runs = _Runs(case, ui, options.timeout, max(options.timeout, 2 * observed.seconds), copy_of)
    eager = _eager(runs)
    if not eager.passes:
        return _not_passed(found, chosen, eager, timed_out=observed.timed_out)
    if copy_of is None and _of_the_user(chosen) and chosen.nature is Nature.OPEN:
        return Blame(Status.PASS, tuple(found), settled=False)
    return _passed(runs, found, chosen)


def finish(case: Case, timeout: float, ui: Ui, observation: Observation) -> Blame:
    """What further runs of the subject make of a failure that no graph alone has settled."""
    found = list(observation.failures)
    chosen = found[case.file.failure_index]
    runs = _Runs(case, ui, timeout, max(timeout, 2 * observation.seconds), None)
    if observation.eager is None:
        eager = _eager(runs)
        if not eager.passes:
            return _not_passed(found, chosen, eager, timed_out=observation.timed_out)
    return _passed(runs, found, chosen)


def _a_graph_may_tell(chosen: ObservedFailure) -> bool:
    """Whether a graph that fails alike alone would show that the compiler is to blame, without a run in eager."""
    if chosen.source == "measured":
        return chosen.failure.kind is Kind.ACCURACY
    return not _of_the_user(chosen) or chosen.nature is Nature.COMPARISON


def _eager(runs: _Runs) -> EagerRun:
    runs.ui.progress("running it without torch.compile")
    return run_eager(runs.case, runs.case.path / "observe" / "eager", runs.limit)


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
    measure: Override = {"measure": ["accuracy"]}
    why = "a check of tensors failed: the compiled calls are compared with eager"
    run_overridden(runs.case, place, measure, why=why, timeout=runs.timeout, copy_of=runs.copy_of)
    calls = read_findings(place / "probe").compiled
    return wrong_result(calls) is not None or any(call.raised for call in calls)


def _unconfirmed(runs: _Runs, chosen: ObservedFailure) -> str:
    """Why two more compiled runs and one more in eager do not confirm the failure; empty: they do."""
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
        why = "the script's own exception: does it come again?"
        ran = run_overridden(runs.case, place, {}, why=why, timeout=runs.timeout, copy_of=runs.copy_of)
        again = failures.found_in(place, ran, read_findings(place / "probe"), summarise(place / "trace"))
        if not any(chosen.signature.matches(seen.signature, Strength.REBASED) for seen in again):
            return "it does not fail so each time with torch.compile"
    return ""


def _not_passed(found: list[ObservedFailure], chosen: ObservedFailure, eager: EagerRun, *, timed_out: bool) -> Blame:
    goes_on = not _of_the_user(chosen)
    alike = [seen for seen in eager.found if seen.signature.matches(chosen.signature, Strength.REBASED)]
    ends_alike = bool(alike) or (eager.ran.timed_out and timed_out)
    if ends_alike and not eager.doubt:
        return Blame(Status.FAIL, tuple(found))
    if eager.doubt:
        why = f"Whether it fails without torch.compile cannot be told: {eager.doubt}"
        status = Status.CANNOT_TELL
    else:
        other = eager.found[0].signature.summary() if eager.found else "it does not end well"
        why = f"Without torch.compile the run fails as well, but differently ({other}); see observe/eager/"
        status = Status.INVALID
    if goes_on:
        return Blame(status, tuple(found), (f"{why}.",))
    return Blame(
        status, tuple(found), nobody=f"{why}; so nobody can be blamed for {chosen.signature.summary()}; {ORACLE}"
    )
