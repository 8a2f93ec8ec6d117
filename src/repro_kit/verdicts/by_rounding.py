"""Find out whether random numbers or eager's own rounding explain a wrong result of the script."""

from __future__ import annotations

import math
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from repro_kit.case.case import Case
from repro_kit.case.stage_results import OBSERVATION, ROUNDING, ObservedFailure
from repro_kit.errors import Exit, Stop
from repro_kit.failure.compiled_calls import CompiledCall, is_explained
from repro_kit.failure.differences import ResultErrors, Rounding
from repro_kit.failure.exception_origin import Nature
from repro_kit.failure.failure import Difference, Frame
from repro_kit.failure.frames import is_generated, torch_path
from repro_kit.failure.kinds import Kind
from repro_kit.probe.repro_probe.protocol.orders import Override
from repro_kit.runner.read_findings import read_findings, read_recorded
from repro_kit.subject.script_run import SubjectRun, run_overridden
from repro_kit.trace import TraceSummary
from repro_kit.ui import Ui
from repro_kit.verdicts import eager_run, observed_failures

_SLOWER = 4.0  # a run with nudged results may take this many times longer than one in eager
_DIRECTIONS = (1, -1, 2, -2)  # the sign is that of the first nudges; each size has its own random numbers
_BY_NOTHING = 0  # runs the operators of a nudge, and changes no value
_TWICE = 2.0  # so much more counts as about as large
_ROOM = 30.0  # the script may differ this many times more when it is compiled than when its rounding is disturbed

_SETTING = "inductor.fallback_random"
_CASTS = "inductor.emulate_precision_casts"
CASTS_LEFT_OUT = (
    "a rounding to the narrow dtype, which eager makes between two operators, is left out in a fused kernel"
)

NEAR = "about as close to double precision as eager is, or gets when its rounding is disturbed"
AS_FAILURE = "failure"  # the value of --treat-rounding-as that goes on as with a wrong result


@dataclass(frozen=True)
class Reruns:
    """How to run the subject again. `copy_of`: the compiler cache without which it does not fail."""

    case: Case
    ui: Ui
    timeout: float  # seconds for a run
    limit: float  # seconds for a run without torch.compile
    copy_of: Path | None


def is_comparison(failure: ObservedFailure) -> bool:
    """Whether the script's own check of results failed, which rounding alone can cause."""
    checked = failure.failure.kind is Kind.ACCURACY or failure.nature is Nature.COMPARISON
    return checked and failure.source in ("exception", "output")


def explained_by_rounding(runs: Reruns, chosen: ObservedFailure, calls: Sequence[CompiledCall]) -> Rounding | None:
    """Why `chosen` is rounding, after the compiled `calls` were compared with eager; None when it may be a bug.

    `overruled` says why a failure whose calls all differ by rounding alone goes on as a wrong result.
    """
    clean = all(call.difference is None and not call.raised and not call.problem and call.rounding for call in calls)
    if not any(call.compared for call in calls) or not clean or _computes_as_eager(runs.case):
        return None
    (direction, nudged), rounding = _when_nudged(runs, chosen, calls), rounding_of_calls(calls)
    all_compared = all(call.compared >= call.calls for call in calls)
    alike = nudged is not None and is_as_large(chosen, nudged, all_compared=all_compared)
    if alike and not is_explained(calls) and not _is_steady(runs, chosen, direction):
        return None  # nothing but the script's check differs, and it comes and goes
    if alike:
        of_script = (
            "in eager, with the results of the compiled functions nudged by about their rounding error, "
            "the script's own check fails in the same way"
        )
        return replace(rounding, evidence=(*rounding.evidence, of_script))
    if all_compared and is_explained(calls) and _is_within(chosen.failure.difference, rounding.errors):
        of_calls = "the script's check tells the same difference, and disturbed rounding alone makes one about as large"
        return replace(rounding, evidence=(*rounding.evidence, of_calls))
    # A result that overflows in the narrow dtype, or falls on a step, is far from what any nudge makes of it.
    if not all(_passes_with(_CASTS, runs, "eager's roundings between two operators") for _ in range(2)):
        return None  # a second time, since a script that fails at random may pass once
    of_script = f"with {_CASTS}=True the script passes, compiled"
    return replace(rounding, evidence=(*rounding.evidence, of_script), why=CASTS_LEFT_OUT, restored_by=f"{_CASTS}=True")


def overruled(calls: Sequence[CompiledCall]) -> str:
    """Why a failure is no rounding although each compared call is; empty where some call is not."""
    if not is_explained(calls):
        return ""
    return (
        f"{rounding_of_calls(calls).evidence[0]}, so rounding alone may be the reason. It goes on as a wrong result, "
        "since the script's own check does not fail alike in eager when rounding is disturbed there"
    )


def _computes_as_eager(case: Case) -> bool:
    """Whether every `torch.compile` of the script has the backend `eager`, whose graphs round as the program does."""
    calls = [event for process in read_recorded(case.path / "observe" / "probe") for event in process.events]
    return {call.settings["backend"] for call in calls if call.event == "compile-call" and call.settings} == {"eager"}


def rounding_of_calls(calls: Sequence[CompiledCall]) -> Rounding:
    """What the comparison of the compiled `calls` with eager and with double precision shows."""
    errors = tuple(row for call in calls for row in call.errors)
    compared = sum(call.compared for call in calls)
    near = NEAR if errors else "no further from eager than the usual tolerance"
    times = "1 compiled call is" if compared == 1 else f"{compared} compiled calls are"
    return Rounding(errors=errors, evidence=(f"{times} {near}",))


def conclude(case: Case, ui: Ui, treat_as: str) -> None:
    """End the work with the rounding verdict on the failure of the case; do nothing without a failure or a verdict.

    Raises Stop. Where rounding counts as a failure, the signature of the case says so instead.
    """
    if not case.holds(ROUNDING) or not case.load(OBSERVATION).failures:
        return
    rounding = case.load(ROUNDING)
    if treat_as == AS_FAILURE:
        if case.file.signature is not None:
            case.update(signature=replace(case.file.signature, rounding=True))
        ui.note(f"This is not a bug by itself ({rounding.sentence}); it counts as a failure, as asked.")
        return
    command = f"repro-kit collect --treat-rounding-as failure {shlex.quote(str(case.path))}"
    raise Stop(
        Exit.ROUNDING,
        f"{rounding.cause}, not a bug: {rounding.sentence}.\n{told(rounding)}\n"
        f"To reduce and report it all the same: {command}",
    )


def healthy(case: Case) -> list[str]:
    """What is to be told of compiled calls that differ from eager by rounding, where nothing failed."""
    if not case.holds(ROUNDING):
        return []
    rounding = case.load(ROUNDING)
    return [f"Results differ by more than the usual tolerance: {rounding.sentence}.", told(rounding)]


def told(rounding: Rounding) -> str:
    """The table of errors, and what was run, as lines of text."""
    table = rounding.table if rounding.errors else []
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
    return "\n".join([*lines, *(f"- {sentence}" for sentence in rounding.accounts)])


def is_as_large(chosen: ObservedFailure, nudged: ObservedFailure, *, all_compared: bool) -> bool:
    """Whether rounding makes the script differ about as much as compiling does, as far as its check says how much.

    A check that says nothing needs all calls compared: a call that was not may be the one that is wrong. A script that
    disturbed rounding takes to infinity or NaN differs without bound. Where disturbed rounding changes a result by more
    than its own size, as with the condition number of a singular matrix, the compiled one may be infinite.
    """
    compiled, disturbed = chosen.failure.difference, nudged.failure.difference
    if compiled is None or disturbed is None:
        return all_compared
    if all_compared and compiled.kind == "value" and disturbed.max_rel >= 1:
        return True
    if not _is_bounded(compiled):  # rounding, too, makes an infinite result of eager's finite
        return all_compared and not _is_bounded(disturbed)
    return not _is_bounded(disturbed) or compiled.max_abs <= _ROOM * disturbed.max_abs


def _is_bounded(difference: Difference) -> bool:
    return difference.kind != "nan" and math.isfinite(difference.max_abs)


def _is_within(told: Difference | None, errors: Sequence[ResultErrors]) -> bool:
    """Whether a check's difference is that of the calls, and disturbed rounding makes each about as large in eager.

    The few runs of the whole script with disturbed rounding may miss what one of several runs of a call has shown.
    """
    if told is None or told.kind != "value" or not _is_bounded(told) or not errors:
        return False
    return told.max_abs <= _TWICE * max(row.gap for row in errors) and all(
        row.nudged is not None and row.gap <= _TWICE * row.nudged for row in errors
    )


def _when_nudged(
    runs: Reruns, chosen: ObservedFailure, calls: Sequence[CompiledCall]
) -> tuple[int, ObservedFailure | None]:
    """The first direction in which `_nudged` finds a failure, and that failure; None where there is none.

    At first only those of `calls` are nudged that differ from eager: a nudge of the others may fail a check before.
    """
    differing = [call.name for call in calls if call.errors]
    some = bool(differing) and len(differing) < sum(call.calls > 0 for call in calls)
    for only in (differing, None) if some else (None,):
        for direction in _DIRECTIONS:
            failed = _nudged(runs, chosen, direction, only)
            if failed is not False:
                return direction, failed
    return 0, None


def _nudged(
    runs: Reruns, chosen: ObservedFailure, direction: int, only: list[str] | None = None
) -> ObservedFailure | Literal[False] | None:
    """The script's check failing at the same line in eager when compiled functions return nudged results.

    False: it does not fail so. None: a run in eager cannot show that. `only`: the functions that are nudged; None: all.
    """
    runs.ui.progress("running the program in eager with its rounding disturbed")
    directory = runs.case.path / "observe" / f"nudged-{direction}"
    shutil.rmtree(directory, ignore_errors=True)
    nudged: Override = {**eager_run.PROBE, "nudge": direction}
    if only is not None:
        nudged["nudged"] = only
    why = "does its check fail in eager too when rounding is disturbed?"
    run = SubjectRun(directory, why=why, timeout=_SLOWER * runs.limit, env=eager_run.EAGER_VARIABLES, ui=runs.ui)
    ended = run_overridden(runs.case, run, nudged)
    findings = read_findings(directory / "probe")
    if findings.graphs_made or findings.loaded or findings.problems:
        return None
    failures = observed_failures.found_in(directory, ended, findings, TraceSummary())
    place = raised_at(chosen)
    for failed in failures:
        exits = chosen.source == failed.source == "exit" and chosen.failure.exit_status == failed.failure.exit_status
        if raised_at(failed) == place and (is_comparison(failed) or place[0] or exits):
            return failed
    return False


def _is_steady(runs: Reruns, chosen: ObservedFailure, direction: int) -> bool:
    """Whether the same nudges make the check fail again, at once, and it does not fail so with nudges of nothing.

    No script that fails in every second or third run does both. Nor does one whose check asks which operators run.
    """
    return bool(_nudged(runs, chosen, direction)) and _nudged(runs, chosen, _BY_NOTHING) is False


def raised_at(observed: ObservedFailure) -> tuple[str, int, str]:
    """File, line and exception type of the user's own frame that raised; ("", 0, "") where there is none."""
    exceptions = observed.failure.exceptions
    frames = [frame for link in exceptions for frame in link.frames if _of_user(frame)]
    return (frames[-1].file, frames[-1].line, exceptions[-1].type) if frames else ("", 0, "")


def _of_user(frame: Frame) -> bool:
    return torch_path(frame.file) is None and not is_generated(frame)


def explained_by_random(runs: Reruns, chosen: ObservedFailure, calls: Sequence[CompiledCall]) -> Rounding | None:
    """Why `chosen` is due to random numbers, after the compiled `calls` were compared; None when it may be a bug."""
    clean = all(call.difference is None and not call.raised and not call.problem and call.rounding for call in calls)
    if not clean or not _passes_with(_SETTING, runs, "eager's random numbers"):
        return None
    return Rounding(
        evidence=(
            "the compiled calls agree with eager where both draw the same random numbers",
            f"with {_SETTING}=True the script passes, compiled",
            "a bug in Inductor's own random numbers would not show",
        ),
        why="the compiled graph draws other random numbers than eager, which torch does not promise to be the same",
        restored_by=f"{_SETTING}=True",
        random=True,
    )


def _passes_with(setting: str, runs: Reruns, words: str) -> bool:
    """Whether the compiled script passes with `setting`, which gives it what `words` say."""
    runs.ui.progress(f"running the program with {words}")
    directory = runs.case.path / "observe" / f"with-{setting.rpartition('.')[2]}"
    shutil.rmtree(directory, ignore_errors=True)
    same: Override = {"config": {setting: True}}
    why = f"does its check pass with {words}?"
    run = SubjectRun(directory, why=why, timeout=runs.timeout, copy_of=runs.copy_of, ui=runs.ui)
    ended = run_overridden(runs.case, run, same)
    found = observed_failures.found_in(directory, ended, read_findings(directory / "probe"), TraceSummary())
    return ended.exit_status == 0 and not found
