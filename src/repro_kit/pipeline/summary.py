"""The summary of a case, read from its files; both the printed summary and `--json` come from here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from repro_kit.bundle.repro.source_files import is_users
from repro_kit.case.case import Case, ResultFile, StageRecord, starts
from repro_kit.case.stage_results import (
    ABLATION,
    BUNDLE,
    CAPTURE,
    OBSERVATION,
    REDUCTION,
    ROUNDING,
    SOURCE_REDUCTION,
    BundleResult,
    Capture,
    ObservedFailure,
    Reduction,
)
from repro_kit.diagnosis.answers import Answers
from repro_kit.diagnosis.cell import Ablation
from repro_kit.errors import Exit, ReproKitError
from repro_kit.failure.differences import Rounding
from repro_kit.failure.failure import Layer
from repro_kit.failure.kinds import Kind
from repro_kit.failure.signature import RunOutcome, Signature, in_words

T = TypeVar("T")

_SETTINGS = ("dynamic", "mode")  # of torch.compile, which change less than another backend


@dataclass(frozen=True)
class OtherFailure:
    """Another failure of the observed run. `failure` is its number for the option `--failure`."""

    failure: int
    kind: str
    signature: str
    count: int
    rank: int | None


@dataclass(frozen=True)
class AsReported:
    """Whether the program from the text of an issue fails as the text reports, in a few words and in a sentence."""

    answer: str
    sentence: str


@dataclass(frozen=True)
class CaseSummary:
    """The result of a command on a case; docs/reference/cli.md explains each field to users (`as_json`)."""

    exit: Exit
    seconds: float = 0.0
    error: str | None = None
    case: str | None = None
    title: str | None = None  # what fails, in one line; of the bundle
    failure: str | None = None  # kind
    signature: str | None = None
    layer: str | None = None
    cause: str | None = None  # from the ablation: the part of the layer
    sentence: str | None = None  # from the ablation; names the layer
    statements: int | None = None
    statements_before: int | None = None
    minimal: bool = False  # every single removal was tried, and no smaller program fails alike
    stopped: str | None = None  # "deadline" or "budget", if that ended the reduction
    passes_with: str | None = None  # the change that turns the program into one that passes
    workaround: str | None = None  # a setting with which it passes, or a workaround that was tried and works
    moved: str | None = None  # how the program came from another device to the CPU
    flaky: str | None = None  # how often the program fails, and how sure the reduction is
    verified: bool = False
    level: str | None = None  # "program" or "script"
    reason: str | None = None  # why the bundle is not verified, or not minimized
    bundle: str | None = None
    sources: tuple[str, ...] = ()  # the user's own source files in the bundle, as they are
    stages: tuple[StageRecord, ...] = ()
    others: tuple[OtherFailure, ...] = ()
    runs: tuple[str, ...] = ()  # the starts of the user's command, each with its reason
    notes: tuple[str, ...] = ()
    rounding: Rounding | None = None  # why results differ without a bug
    answers: Answers | None = None  # the facts that maintainers ask for, if there is a bundle
    issue: AsReported | None = None  # of a program from the text of an issue

    def as_json(self) -> dict[str, Any]:
        """The fields by name, `exit` as a number."""
        data = asdict(self)
        data["exit"] = int(self.exit)
        for stage in data["stages"]:
            del stage["settings"], stage["about"]
        return data


def case_summary(
    case: Case, exit_code: Exit, *, seconds: float, error: str | None = None, notes: Sequence[str] = ()
) -> CaseSummary:
    """Read the summary from the results of the current stages; stale and failed stages are left out."""
    observation = _result(case, OBSERVATION)
    capture = _result(case, CAPTURE)
    ablation = _result(case, ABLATION)
    reduction = _result(case, SOURCE_REDUCTION) or _result(case, REDUCTION)
    bundle = _result(case, BUNDLE)
    failures = observation.failures if observation else ()
    chosen = failures[case.file.failure_index] if case.file.failure_index < len(failures) else None
    signature = case.file.signature or (chosen.signature if chosen else None)
    if exit_code is Exit.NOTHING_FAILED:  # what the script caught was no failure
        signature = None
    if bundle is not None and bundle.dropped:  # what the ablation says does not hold for repro.py
        ablation = None
    layer = (bundle.layer if bundle else None) or (ablation.layer if ablation else None)
    if exit_code is Exit.USER_BUG:
        layer = Layer.USER
    moved_to_cpu = ((capture and capture.moved_to_cpu) or case.file.moved_to_cpu) if signature else None
    captured = capture.statements if capture and capture.subject == "program" else None
    sentences = [
        *(observation.warnings if observation else ()),
        capture.note if capture else "",
        *(ablation.notes if ablation else ()),
        reduction.note if reduction else "",
        *(f"another failure met while reducing: {failure}" for failure in (reduction.others if reduction else ())),
        *notes,
    ]
    return CaseSummary(
        exit=exit_code,
        seconds=round(seconds, 1),
        error=error,
        case=str(case.path),
        failure=_kind(signature, exit_code),
        signature=_words(signature, chosen, capture, reduction) if signature else None,
        layer=str(layer) if layer else None,
        cause=(ablation.cause or None) if ablation else None,
        sentence=(ablation.sentence or None) if ablation else None,
        statements=reduction.statements_after if reduction else captured,
        statements_before=reduction.statements_before if reduction else captured,
        minimal=bool(reduction and reduction.minimal),
        stopped=reduction.stopped if reduction and reduction.stopped != "fixpoint" else None,
        passes_with=reduction.twin.what if reduction and reduction.twin else None,
        workaround=what_passes(ablation) if ablation and ablation.layer is not Layer.USER else None,
        moved=moved_to_cpu.sentence(layer) if moved_to_cpu else None,
        flaky="; ".join(_flaky(reduction, bundle)) or None,
        verified=bool(bundle and bundle.verified),
        level=bundle.level if bundle else None,
        reason=(bundle.reason or None) if bundle else None,
        bundle=bundle.path if bundle else None,
        sources=tuple(name for name in bundle.files if is_users(name)) if bundle else (),
        stages=case.file.stages,
        others=_others(failures, chosen),
        runs=tuple(start.why for start in starts(case)),
        notes=tuple(dict.fromkeys(note for note in sentences if note)),
        rounding=_result(case, ROUNDING),
        answers=bundle.answers if bundle else None,
        title=(bundle.title or None) if bundle else None,
    )


def _kind(signature: Signature | None, exit_code: Exit) -> str | None:
    if exit_code is Exit.ROUNDING or (signature is not None and signature.rounding):
        return str(Kind.ROUNDING)
    return str(signature.kind) if signature else None


def _words(
    signature: Signature, chosen: ObservedFailure | None, capture: Capture | None, reduction: Reduction | None
) -> str:
    """The signature on one line; of a compile time that grows, that of the reduced program, if it was measured."""
    if reduction and reduction.growth:
        return replace(signature, message=reduction.growth).summary()
    alone = capture.verdict.failure if capture and capture.verdict else None
    return in_words(signature, alone, chosen.failure if chosen else None)


def what_passes(ablation: Ablation) -> str | None:
    """The least that makes it pass: a workaround that was tried on the script, else a setting that passes in a cell."""
    tried = next((workaround.name for workaround in ablation.workarounds if workaround.works), None)
    if tried is not None:
        return tried
    passing = [
        cell for cell in ablation.cells if cell.compiled and cell.outcome is RunOutcome.PASSES and not cell.setup
    ]
    alone = [next(iter(cell.changed.items())) for cell in passing if len(cell.changed) == 1]
    settings = [(name, value) for wanted in _SETTINGS for name, value in alone if name == wanted]
    return next((f"{name}={value!r}" for name, value in settings), None)


def _flaky(reduction: Reduction | None, bundle: BundleResult | None) -> Iterator[str]:
    if bundle and bundle.flaky:
        yield bundle.flaky
    if reduction and reduction.note:
        yield reduction.note


def _others(failures: Sequence[ObservedFailure], chosen: ObservedFailure | None) -> tuple[OtherFailure, ...]:
    return tuple(
        OtherFailure(number, str(failure.failure.kind), failure.signature.summary(), failure.count, failure.rank)
        for number, failure in enumerate(failures)
        if failure is not chosen
    )


def _result(case: Case, file: ResultFile[T]) -> T | None:
    record = case.stage(file.stage)
    stopped = record is not None and record.status == "stopped"
    if not (stopped or case.is_current(file.stage)) or not case.holds(file):
        return None
    try:
        return case.load(file)
    except ReproKitError:
        return None  # the file was damaged later: the summary has the other results
