"""Write the results of a reduction to the case."""

from __future__ import annotations

import difflib
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from repro_kit.artefact.plain import runnable
from repro_kit.bundle.pages.drawings import curve
from repro_kit.bundle.repro.source_files import REDUCED
from repro_kit.case.case import Case, ResultFile
from repro_kit.case.stage_results import (
    REDUCED_FAILURE,
    REDUCTION,
    SOURCE_FAILURE,
    SOURCE_REDUCTION,
    NumberFound,
    ObservedFailure,
    Reduction,
    ReductionStep,
    TwinFound,
)
from repro_kit.diagnosis.answers import TriedVariant
from repro_kit.failure.failure import Difference, Failure
from repro_kit.failure.frames import brief_failure
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, signature_of
from repro_kit.files import write_atomic
from repro_kit.graph import Program
from repro_kit.reduce import Result
from repro_kit.reduce.reduction import DecidingNumber, Removal, Twin
from repro_kit.reduce.search import P
from repro_kit.script import Script

#: The directory in which a candidate ran, in a message.
_SCRATCH = re.compile(r"\S*/query-\d+/")
_PLACEHOLDER = re.compile(r"<\w+>")  # of a value in a message that is compared


def _outcome(removal: Removal) -> str:
    return ": ".join(filter(None, ("equivalent" if removal.equivalent else str(removal.outcome or ""), removal.note)))


def tried_variants(variants: Iterable[Removal]) -> tuple[TriedVariant, ...]:
    """The variants of the result that were judged. One that is no valid program says nothing of the failure."""
    judged = [each for each in variants if each.outcome not in (None, RunOutcome.INVALID)]
    return tuple(TriedVariant(each.what, _ended(each)) for each in judged)


def _ended(variant: Removal) -> str:
    """How a variant of the result ended, in words."""
    match variant.outcome:
        case RunOutcome.PASSES:
            return "passes"
        case RunOutcome.FAILS_ALIKE:
            return "fails"
        case RunOutcome.FAILS_OTHERWISE if variant.note:
            return f"fails otherwise ({_PLACEHOLDER.sub('…', variant.note)})"
    return variant.note or "cannot tell"


def _twin(program: P, twin: Twin[P] | None, text_of: Callable[[P], str]) -> TwinFound | None:
    if twin is None:
        return None
    fails, passes = (text_of(version).splitlines() for version in (program, twin.program))
    diff = difflib.unified_diff(fails, passes, "fails", "passes", lineterm="", n=1)
    return TwinFound(twin.what, "\n".join(diff))


def _number(number: DecidingNumber | None) -> NumberFound | None:
    return None if number is None else NumberFound(number.what, number.fails, number.passes, number.words)


def _note(result: Result[Any], what: str) -> str:
    """How often a flaky failure occurred, and what that means for the result; empty if it occurred in every run."""
    if result.failed == result.runs:
        return ""
    return (
        f"{what} failed in {result.failed} of {result.runs} runs; a smaller one was run up to "
        f"{result.repeats} times, so that one that fails as often was missed with a probability of {result.missed:.0%}"
    )


def write_reduction(case: Case, result: Result[Program], failure: Failure | None) -> None:
    """Write `minify/`: the smallest program, its inputs, the steps, other failures, the neighbours, the statistics.

    `failure`: the failure of the smallest program in a fresh interpreter; None if it did not fail alike there.
    """
    directory = case.path / "minify"
    shutil.rmtree(directory / "source", ignore_errors=True)  # an earlier reduction of the script
    stored = set(result.program.stored)
    _keep_failure(case, REDUCED_FAILURE, failure)
    _write(case, REDUCTION, result, failure, runnable, self_contained=not stored)
    for file in (directory / "inputs").glob("*.pt"):
        if file.name not in stored:
            file.unlink()


def write_source(
    case: Case,
    result: Result[Script],
    failure: Failure | None,
    *,
    self_contained: bool,
    ranks: int = 1,
    fewer: str = "",
    fresh: bool = False,
    seen: Difference | None = None,
) -> None:
    """Write `minify/source/`, in the form of `minify/`.

    `self_contained`: the script needs torch only. `ranks`: the processes that run it; `fewer`: why they are not all.
    `fresh`: it fails only in an interpreter that has compiled nothing before. `seen`: how its compiled calls differ
    from eager, where its own check does not say.
    """
    _keep_failure(case, SOURCE_FAILURE, failure)
    reduction = _write(
        case, SOURCE_REDUCTION, result, failure, lambda program: program.text, self_contained=self_contained
    )
    difference = reduction.difference or seen
    case.store(SOURCE_REDUCTION, replace(reduction, ranks=ranks, fewer=fewer, fresh=fresh, difference=difference))


def _keep_failure(case: Case, handle: ResultFile[ObservedFailure], failure: Failure | None) -> None:
    """Write the failure of the result, without the directory in which it ran; remove that of an earlier result."""
    (case.path / handle.name).unlink(missing_ok=True)
    if failure is None:
        return
    text = _SCRATCH.sub("", failure.text)
    shown = replace(
        failure,
        text=text.replace("script.py:", f"{REDUCED}:") if failure.kind is Kind.DEADLOCK else text,
        exceptions=tuple(
            replace(exception, message=_SCRATCH.sub("", exception.message)) for exception in failure.exceptions
        ),
    )
    case.store(handle, ObservedFailure(brief_failure(shown), signature_of(failure)))


def _write(
    case: Case,
    handle: ResultFile[Reduction],
    result: Result[P],
    failure: Failure | None,
    text_of: Callable[[P], str],
    *,
    self_contained: bool,
) -> Reduction:
    directory = (case.path / handle.name).parent
    (case.path / handle.name).unlink(missing_ok=True)  # it describes the files below, so it is written last
    for name in ("history", "also"):
        shutil.rmtree(directory / name, ignore_errors=True)
    write_atomic(directory / "best.py", text_of(result.program).encode())
    steps = []
    for number, step in enumerate(result.history):
        script = f"history/{number:03d}.py"
        write_atomic(directory / script, text_of(step.program).encode())
        steps.append(ReductionStep(step.name, step.statements, step.queries, script, round(step.seconds, 2)))
    for number, (_, program) in enumerate(result.others):
        write_atomic(directory / "also" / f"{number:03d}.py", text_of(program).encode())
    neighbours = result.neighbours
    (directory / "twin.py").unlink(missing_ok=True)
    if neighbours.twin is not None:
        write_atomic(directory / "twin.py", text_of(neighbours.twin.program).encode())
    reduction = Reduction(
        statements_before=result.statements_before,
        statements_after=result.statements_after,
        queries=result.queries,
        seconds=round(result.seconds, 1),
        verified=failure is not None,
        self_contained=self_contained,
        steps=tuple(steps),
        stopped=result.stopped,
        others=tuple(note for note, _ in result.others),
        minimal=neighbours.minimal,
        removals=tuple(TriedVariant(removal.what, _outcome(removal)) for removal in neighbours.removals),
        variants=tried_variants(neighbours.variants),
        twin=_twin(result.program, neighbours.twin, text_of),
        number=_number(neighbours.number),
        repeats=result.repeats,
        note=_note(result, "the script" if handle is SOURCE_REDUCTION else "the captured graph"),
        difference=failure.difference if failure else None,
        growth=failure.text if failure and failure.kind is Kind.COMPILE_GROWTH else "",
        failed=result.failed,
        runs=result.runs,
    )
    write_atomic(directory / "curve.svg", curve(reduction).encode())
    case.store(handle, reduction)
    return reduction
