"""Find out whether the compiler is at fault: by a graph that fails alone, by a run in eager, or by repeated runs.

`begin` judges by the observed run, and leaves open what a graph may settle. `finish` runs the subject again.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from repro_kit.case.case import Case
from repro_kit.case.stage_results import Observation, ObservedFailure
from repro_kit.failure.compiled_calls import CompiledCall, is_explained, validation_lost, wrong_result
from repro_kit.failure.differences import Rounding
from repro_kit.failure.exception_origin import Nature, is_of_a_peer
from repro_kit.failure.failure import Failure, Status
from repro_kit.failure.frames import torch_path
from repro_kit.failure.kinds import Kind
from repro_kit.failure.messages import is_late
from repro_kit.failure.missing import may_lack_device, missing_device
from repro_kit.failure.signature import Strength, raised_words, signature_of
from repro_kit.failure.tracebacks import unwrap
from repro_kit.options.stages import ObserveOptions
from repro_kit.probe.repro_probe.protocol.orders import Override
from repro_kit.runner.read_findings import read_findings
from repro_kit.runner.supervised import Run
from repro_kit.subject.script_run import SubjectRun, run_overridden
from repro_kit.trace import summarise
from repro_kit.ui import Ui
from repro_kit.verdicts import by_rounding, eager_run, observed_failures
from repro_kit.verdicts.alike_in_eager import is_alike
from repro_kit.verdicts.by_rounding import Reruns
from repro_kit.verdicts.eager_run import EagerRun, run_eager

ORACLE = "if it is a wrong result, tell repro-kit how to see it: --oracle 'COMMAND' (exit status 0: good)"
_COMPARED_CALLS = 200  # of each compiled callable: a missing guard may show late
#: Runs after one compiled and one eager run. A failure in every second or third run does not fit this order.
_AGAIN = (False, True, True)  # compiled?
_CALLS_COMPILED = ("torch/_dynamo/eval_frame.py", "compile_wrapper")
_RAISES = re.compile(r"\s*(?:raise|assert)\b|.*\b(?:assert\w*|exit)\(")


@dataclass(frozen=True)
class Blame:
    """What is known about whose failure it is. `eager`: the result of a run in eager, None without such a run.

    `nobody`: a sentence that says why repro-kit blames nobody; empty if the work goes on. `needs`: the failure in
    eager where it says that this machine lacks a device.
    """

    eager: Status | None
    failures: tuple[ObservedFailure, ...]
    warnings: tuple[str, ...] = ()
    nobody: str = ""
    needs: ObservedFailure | None = None
    settled: bool = True  # False: a graph that fails alone would settle it; without one, `finish` does
    rounding: Rounding | None = None  # why the failure is rounding, where it is
    both: str = ""  # the exception that the script catches, where the same calls raise in eager as well
    lost: Failure | None = None  # the exception of eager that the script misses, where it misses one
    deadlock: bool = False  # ranks wait for each other in eager alike: the script is reduced to show where
    in_eager: ObservedFailure | None = None  # the failure in eager that is the same one, in eager's own words


def judge_observed(
    case: Case,
    options: ObserveOptions,
    ui: Ui,
    failures: list[ObservedFailure],
    observed: Run,
    copy_of: Path | None = None,
    *,
    of_a_graph: bool = True,
) -> Blame:
    """Judge the failure of the case by the observed run; run eager only if no graph can settle it.

    `copy_of`: the compiler cache without which the subject does not fail. `of_a_graph`: one graph may fail alike.
    """
    chosen = failures[observed_failures.index_of(options.failure, failures)]
    if chosen.nature is Nature.OBSERVER:
        where = chosen.failure.exceptions[-1].frames[-1].function
        why = f"{raised_words(chosen.failure)} was raised in repro-kit's own code ({where}), which watched the program"
        return Blame(None, tuple(failures), nobody=f"{why}; the program may be right: please report this to repro-kit")
    if copy_of is None and of_a_graph and _a_graph_may_tell(chosen):
        return Blame(None, tuple(failures), settled=False)
    runs = Reruns(case, ui, options.timeout, max(options.timeout, 2 * observed.seconds), copy_of)
    eager = _eager(runs)
    if not eager.passes:
        return _not_passed(runs, failures, chosen, eager, timed_out=observed.timed_out)
    if copy_of is None and _needs_eager(chosen) and chosen.nature is Nature.OPEN:
        return Blame(Status.PASS, tuple(failures), settled=False)
    return _passed(runs, failures, chosen)


def judge_by_reruns(case: Case, timeout: float, ui: Ui, observation: Observation) -> Blame:
    """Judge a failure by more runs of the subject, since no graph fails alone."""
    failures = list(observation.failures)
    chosen = failures[case.file.failure_index]
    runs = Reruns(case, ui, timeout, max(timeout, 2 * observation.seconds), None)
    if observation.eager is None:
        eager = _eager(runs)
        if not eager.passes:
            return _not_passed(runs, failures, chosen, eager, timed_out=observation.timed_out)
    return _passed(runs, failures, chosen)


def _a_graph_may_tell(chosen: ObservedFailure) -> bool:
    """Whether a graph that fails alike alone would show that the compiler is at fault, without a run in eager."""
    if may_lack_device(chosen.failure):
        return False
    if chosen.source == "measured":
        return chosen.failure.kind.policy.compared
    return not _needs_eager(chosen) or chosen.nature is Nature.COMPARISON


def _eager(runs: Reruns) -> EagerRun:
    runs.ui.progress("running the program without torch.compile")
    return run_eager(runs.case, runs.case.path / "observe" / "eager", runs.limit, runs.ui)


def as_wrong_result(failure: ObservedFailure) -> ObservedFailure:
    """`failure` of a program that passes in eager: an exception of the user's own check becomes a wrong result."""
    if not _needs_eager(failure) or failure.nature in (Nature.MACHINE, Nature.OBSERVER, Nature.TIME):
        return failure
    if _of_compiled_code(failure):
        return failure
    wrong = replace(failure.failure, kind=Kind.ACCURACY)
    return replace(failure, failure=wrong, signature=signature_of(wrong))


def _of_compiled_code(failure: ObservedFailure) -> bool:
    """Whether code that Dynamo has made raised the exception: below a compiled call, and by no statement that raises.

    Such code stands on the first line of its function, or on a line that reads what Dynamo has computed.
    """
    frames = failure.failure.exceptions[-1].frames if failure.failure.exceptions else ()
    places = {(torch_path(frame.file), frame.function) for frame in frames}
    return _CALLS_COMPILED in places and not _RAISES.match(frames[-1].code or "")


def _needs_eager(failure: ObservedFailure) -> bool:
    """Whether only runs in eager tell whose failure it is: the script's own exception, or one of the machine's kind."""
    if failure.nature is Nature.MACHINE:
        return True
    raised = failure.failure.kind is Kind.RUNTIME_ERROR and failure.nature is not Nature.COMPILER
    return raised and not is_late(unwrap(failure.failure.exceptions))


def _passed(runs: Reruns, failures: list[ObservedFailure], chosen: ObservedFailure) -> Blame:
    wrong = tuple(map(as_wrong_result, failures))
    doubts: tuple[str, ...] = ()
    checked = by_rounding.is_comparison(chosen)
    if checked or (_needs_eager(chosen) and chosen.nature is Nature.OPEN):
        calls = _compared(runs)
        lost = validation_lost(calls)
        if lost is not None:
            return Blame(Status.PASS, wrong, lost=lost)
        if wrong_result(calls) is not None or any(call.raised for call in calls):
            return Blame(Status.PASS, wrong)
        undefined = _undefined(chosen, calls)
        if undefined:
            return Blame(Status.PASS, tuple(failures), nobody=undefined)
        drawn = any(call.random for call in calls)
        explain = by_rounding.explained_by_random if drawn else by_rounding.explained_by_rounding
        rounding = explain(runs, chosen, calls) if checked or drawn or is_explained(calls) else None
        if rounding is not None:
            return Blame(Status.PASS, wrong, rounding=rounding)
        why = _without_a_wrong_call(runs, chosen, calls)
        if why is not None:
            return Blame(Status.PASS, tuple(failures) if why else wrong, nobody=why)
        hidden = _agree(calls) and _written_unseen(runs, chosen)
        if hidden:
            return Blame(Status.PASS, tuple(failures), nobody=hidden)
        if chosen.source == "exit" and _agree(calls):  # it may compare texts, or digests, of results
            rounding = by_rounding.explained_by_rounding(runs, chosen, calls)
            if rounding is not None:
                return Blame(Status.PASS, wrong, rounding=rounding)
        doubts = tuple(filter(None, [by_rounding.overruled(calls)]))
    if chosen.source in ("trace", "log"):  # the script caught it, perhaps because it expects it
        calls = _compared(runs)
        if any(call.both for call in calls) and not any(call.raised for call in calls):
            return Blame(Status.FAIL, tuple(failures), both=next(call.both for call in calls if call.both))
    if chosen.source == "measured" or not (checked or _needs_eager(chosen)):
        return Blame(Status.PASS, wrong, doubts)
    nobody = (_needs_eager(chosen) and _of_circumstances(chosen)) or _not_confirmed(runs, chosen)
    return Blame(Status.PASS, tuple(failures) if nobody else wrong, () if nobody else doubts, nobody=nobody)


def _undefined(chosen: ObservedFailure, calls: Sequence[CompiledCall]) -> str:
    """Why a check of the script's own shows no bug, where what differs is not defined in eager; empty otherwise."""
    told = [f"{call.name}: {call.undefined}" for call in calls if call.undefined]
    if not told:
        return ""
    return (
        f"{raised_words(chosen.failure)} comes from the script itself, and a compiled call differs from eager only "
        f"where its results are not defined ({told[0]}); {ORACLE}"
    )


def _of_circumstances(chosen: ObservedFailure) -> str:
    """Why the nature of `chosen` is no evidence: it is the machine's, or about time; empty otherwise."""
    said = raised_words(chosen.failure)
    if chosen.nature is Nature.MACHINE:
        origin = "an error of the machine, or of a service that the script uses"
        if is_of_a_peer(chosen.failure):
            origin = "what a rank raises because another rank has ended, or comes too late"
        return f"{said} is {origin}; it is no evidence; fix the cause and run the program again, or {ORACLE}"
    if chosen.nature is Nature.TIME:
        why = f"{said} is the script's own exception about how long something took; compiling changes times by itself"
        return f"{why}; use --check 'compile-time>S' or --check 'slowdown>X', or {ORACLE}"
    return ""


def _not_confirmed(runs: Reruns, chosen: ObservedFailure) -> str:
    """Why nobody is blamed for an exception of the script's own that more runs do not confirm; empty if they do."""
    doubt = _unconfirmed(runs, chosen)
    why = f"{raised_words(chosen.failure)} comes from the script itself, and more runs do not confirm it ({doubt})"
    return f"{why}; {ORACLE}" if doubt else ""


def _without_a_wrong_call(runs: Reruns, chosen: ObservedFailure, calls: Sequence[CompiledCall]) -> str | None:
    """Why nobody is blamed for a check of the script's own: each compiled call agrees, and the check needs no graph.

    It may need one where it asks about no tensor, but about what a process has loaded, say, or which operators run.
    "": Dynamo is to blame, since a call leaves another state. None: that is not known, since the check needs a graph,
    or some call was not compared.
    """
    if not _agree(calls):
        return None
    of_no_tensor = chosen.nature is Nature.OPEN and chosen.source == "exception"  # the probe has seen the condition
    of_no_tensor = of_no_tensor or (chosen.source == "exit" and observed_failures.asks_about_no_tensor(runs.case))
    watcher = next((call.watched for call in calls if call.watched), "")
    if not of_no_tensor and not watcher and not _fails_without_graphs(runs, chosen):
        return None
    states = _compared(runs, "state")
    if wrong_result(states) is not None:
        return ""
    if any(call.problem for call in states):
        return None
    reason = (
        "its check is not seen to ask about values of tensors"
        if of_no_tensor
        else "the script fails with all graphs in eager, too"
    )
    if watcher:
        reason = f"compiled code runs other operators than eager, and saves other tensors, which {watcher} sees"
    both = next((f" (where eager raises {call.both}, it raises, too)" for call in calls if call.both), "")
    drawn = " with the same random numbers" if any(call.random for call in calls) else ""
    return (
        f"{raised_words(chosen.failure)} comes from the script itself. No compiled call differs from the same call in "
        f"eager{drawn}, in its results or in the Python state that it leaves{both}, and {reason}; {ORACLE}"
    )


def _written_unseen(runs: Reruns, chosen: ObservedFailure) -> str:
    """Why each compiled call may agree and the script not: it changes what a backward needs; empty otherwise."""
    runs.ui.progress("running the program in eager, and watching what is saved for a backward")
    directory = runs.case.path / "observe" / "hidden-writes"
    shutil.rmtree(directory, ignore_errors=True)
    why = "does it write, unseen by autograd, to what is saved for a backward?"
    run = SubjectRun(directory, why=why, timeout=runs.limit, env=eager_run.EAGER_VARIABLES, ui=runs.ui)
    run_overridden(runs.case, run, {**eager_run.PROBE, "hidden_writes": True})
    written = read_findings(directory / "probe").hidden_writes
    if not written:
        return ""
    return (
        f"{raised_words(chosen.failure)} comes from the script itself. No compiled call differs from the same call in "
        "eager, and between a forward and its backward the script writes, unseen by autograd (by .data, say), to a "
        f"tensor from which that backward may be computed ({written[0]}): compiled code saves other tensors; {ORACLE}"
    )


def _agree(calls: Sequence[CompiledCall]) -> bool:
    """Whether all of `calls`, in which no difference was seen, were compared with eager."""
    return bool(calls) and all(not call.problem and call.compared >= min(call.calls, _COMPARED_CALLS) for call in calls)


def _fails_without_graphs(runs: Reruns, chosen: ObservedFailure) -> bool:
    """Whether the script fails alike where Dynamo traces it, and each of its graphs runs in eager."""
    why = "does its check pass with all graphs in eager?"
    runs.ui.progress(f"running the script: {why}")
    directory = runs.case.path / "observe" / "no-graphs"
    return _fails_alike(
        runs, chosen, SubjectRun(directory, why=why, timeout=runs.timeout, ui=runs.ui), {"eager_graphs": ">=0"}
    )


def _fails_alike(runs: Reruns, chosen: ObservedFailure, run: SubjectRun, changes: Override) -> bool:
    shutil.rmtree(run.directory, ignore_errors=True)
    ended = run_overridden(runs.case, run, changes)
    findings, summary = read_findings(run.directory / "probe"), summarise(run.directory / "trace")
    again = observed_failures.found_in(run.directory, ended, findings, summary)
    return any(chosen.signature.matches(failure.signature, Strength.REBASED) for failure in again)


def _compared(runs: Reruns, measure: Literal["accuracy", "state"] = "accuracy") -> tuple[CompiledCall, ...]:
    """The compiled calls, each compared with the same call in eager, in one process: their results, or their state."""
    words = "with eager" if measure == "accuracy" else "with eager in the Python state that they leave"
    runs.ui.progress(f"comparing the compiled calls {words}")
    directory = runs.case.path / "observe" / ("compared" if measure == "accuracy" else "state")
    shutil.rmtree(directory, ignore_errors=True)  # results of an earlier run would be read as results of this run
    override: Override = {"measure": [measure], "compared_calls": _COMPARED_CALLS}
    why = f"whose failure is it? The compiled calls are compared {words}"
    run = SubjectRun(directory, why=why, timeout=runs.timeout, copy_of=runs.copy_of, ui=runs.ui)
    run_overridden(runs.case, run, override)
    return read_findings(directory / "probe").compiled


def _unconfirmed(runs: Reruns, chosen: ObservedFailure) -> str:
    """Why two more compiled runs and one more run in eager do not confirm the failure; empty if they do."""
    for number, compiled in enumerate(_AGAIN, start=1):
        how = "with" if compiled else "without"
        runs.ui.progress(f"the script raised the exception itself: running the script {how} torch.compile again")
        directory = runs.case.path / "observe" / f"again-{number}"
        shutil.rmtree(directory, ignore_errors=True)
        if not compiled:
            eager = run_eager(runs.case, directory, runs.limit, runs.ui)
            if not eager.passes:
                return eager.doubt or "the script does not pass every time without torch.compile"
            continue
        why = "the script's own exception: does it come again?"
        run = SubjectRun(directory, why=why, timeout=runs.timeout, copy_of=runs.copy_of, ui=runs.ui)
        if not _fails_alike(runs, chosen, run, {}):
            return "the script does not fail in this way every time with torch.compile"
    return ""


def _not_passed(
    runs: Reruns, failures: list[ObservedFailure], chosen: ObservedFailure, eager: EagerRun, *, timed_out: bool
) -> Blame:
    needs = next((failure for failure in eager.failures if missing_device(failure.failure)), None)
    if needs is not None and may_lack_device(chosen.failure):
        return Blame(Status.FAIL, (needs, *failures), needs=needs)
    goes_on = not _needs_eager(chosen)
    alike = [failure for failure in eager.failures if is_alike(failure, chosen)]
    ends_alike = bool(alike) or (eager.run.timed_out and timed_out)
    if ends_alike and not eager.doubt:
        deadlock = any(failure.failure.kind is Kind.DEADLOCK for failure in alike)
        return Blame(Status.FAIL, tuple(failures), deadlock=deadlock, in_eager=next(iter(alike), None))
    if not eager.doubt and any(each.signature.is_lost_by(chosen.signature) for each in eager.failures):
        return Blame(Status.PASS, tuple(failures))  # eager raises what it should
    if eager.doubt:
        why = f"Whether the program fails without torch.compile is unknown: {eager.doubt}"
        status = Status.CANNOT_TELL
    else:
        how_it_fails = raised_words(eager.failures[0].failure) if eager.failures else "it ends with an error"
        why = f"Without torch.compile the program fails as well, but differently ({how_it_fails}); see observe/eager/"
        status = Status.INVALID
    may_be_lost = status is Status.INVALID and (not goes_on or by_rounding.is_comparison(chosen))
    lost = _lost(runs, eager) if chosen is failures[0] and may_be_lost else None
    if lost is not None:  # the script fails because it goes on where eager ends
        return Blame(None, (lost, *failures), settled=False)
    if goes_on:
        return Blame(status, tuple(failures), (f"{why}.",))
    return Blame(
        status,
        tuple(failures),
        nobody=f"{why}; so repro-kit cannot say who is to blame for {raised_words(chosen.failure)}; {ORACLE}",
    )


def _lost(runs: Reruns, eager: EagerRun) -> ObservedFailure | None:
    """The exception that ends the program in eager, where a compiled call returns instead of raising it."""
    ended_by = next((failure.failure.exceptions for failure in eager.failures if failure.source == "exception"), ())
    lost = validation_lost(_compared(runs)) if ended_by else None
    if lost is None or lost.exceptions[-1].type != ended_by[-1].type:
        return None
    return ObservedFailure(lost, signature_of(lost), source="measured")
