"""Minify: reduce the captured program while it fails alike, and check the result in a fresh interpreter."""

from __future__ import annotations

import difflib
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import orjson

from repro_kit.bundle.curve import curve
from repro_kit.case import Case, write_atomic
from repro_kit.errors import Exit, ReproKitError
from repro_kit.model.failure import Failure, Kind, Phase, Status, Verdict
from repro_kit.model.results import Capture, Reduction, ReductionStep, RemovalTried, TwinFound
from repro_kit.model.serialize import from_data, to_data
from repro_kit.model.signature import Signature, Strength, focused, signature_of
from repro_kit.program import Program, parse, render
from repro_kit.program.values import Metadata, TensorRecord, records
from repro_kit.reduce import Answer, Journal, Outcome, Result, minify
from repro_kit.reduce.neighbours import Removal, Twin
from repro_kit.runner.oracle import Oracle
from repro_kit.stages.events import events_to
from repro_kit.stages.judging import with_tolerance
from repro_kit.stages.live import shown
from repro_kit.stages.options import Options
from repro_kit.stages.oracle import fresh_oracle, open_oracle, query_timeout
from repro_kit.ui import Ui

_LARGEST = 1 << 30  # bytes of intermediate values that are stored
_CHECKS = 3  # of the result, when it does not fail at once
_VARYING = (Kind.CRASH, Kind.TIMEOUT, Kind.ACCURACY)  # any other failure is the same every time, unless seen not to be


def run(case: Case, options: Options, ui: Ui) -> None:
    """Write `minify/best.py`, its stored inputs, `minify.json`, the accepted steps and other failures met."""
    capture = case.read("capture/capture.json", Capture)
    if capture.signature is None or not case.has("capture/program.py"):
        raise ReproKitError("There is no captured program to reduce; run capture first.", Exit.FAILED)
    program = parse((case.path / "capture" / "program.py").read_text(encoding="utf-8"))
    place = case.path / "minify"
    _stock_inputs(case.path / "capture" / "inputs", place / "inputs")
    with (
        events_to(options.events, shown(ui, options.deadline)) as on_event,
        fresh_oracle(case) as afresh,
        open_oracle(case, options) as oracle,
    ):
        afresh.prepare(program.recipe)
        timeout = query_timeout(options, capture.signature.kind)
        judge = Judge(oracle, capture.signature, place / "inputs", timeout, ui, _until(capture, program))
        result = minify(
            program,
            judge,
            hints=judge.hints(program, capture.verdict.failure if capture.verdict else None),
            before=[judge.answer(capture.verdict)] if capture.verdict else [],
            journal=Journal(place / "journal.jsonl", about=judge.about),
            budget=options.budget,
            deadline=options.deadline,
            on_event=on_event,
        )
        ui.progress("checking the result in a fresh interpreter")
        runs = max(result.repeats, _CHECKS if capture.signature.kind in _VARYING else 1)
        smallest, fails = verified(afresh, result.program, capture.signature, place / "inputs", timeout, runs)
    result = replace(result, program=smallest)
    _write(case, result, fails)
    words = f"{result.statements_before} → {result.statements_after} statements, {result.queries} queries"
    words += ", 1-minimal" if result.neighbours.minimal else ""
    stopped = "" if result.stopped == "fixpoint" else f", stopped by its {result.stopped}"
    ui.done(words + stopped + ("" if fails else "; the result was NOT seen to fail in a fresh interpreter"))


class Judge:
    """The reducer's oracle: runs candidates, and holds their failures against the original's signature."""

    def __init__(
        self,
        oracle: Oracle,
        signature: Signature,
        inputs: Path,
        timeout: float,
        ui: Ui,
        until: Literal["native"] | None = None,
    ) -> None:
        self.jobs = oracle.jobs
        self._until = until
        self._ui = ui
        self._oracle = oracle
        self._signature = signature
        self._inputs = inputs
        self._timeout = timeout

    @property
    def about(self) -> str:
        """What its answers depend on beside the program, in short."""
        parts = (to_data(self._signature), self._timeout, self._until, self._oracle.python)
        return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:16]

    def check(self, programs: Sequence[Program]) -> Iterator[Answer]:
        """One answer a program, in order; closing the iterator kills what is under way."""
        texts = [render(program) for program in programs]
        yield from map(self.answer, self._oracle.check(texts, self._inputs, timeout=self._timeout, until=self._until))

    def answer(self, verdict: Verdict) -> Answer:
        """What a verdict means for the reduction."""
        if verdict.status is Status.PASS or verdict.failure is None:
            outcome = Outcome.PASS if verdict.status in (Status.PASS, Status.FLAKY) else Outcome(verdict.status.value)
            return Answer(outcome, verdict.seconds, verdict.note)
        seen = signature_of(focused(verdict.failure, self._signature))
        if verdict.status is Status.INVALID:
            return Answer(Outcome.INVALID, verdict.seconds, seen.summary())
        # A compile that takes exponential time is found in another place each time it is looked at.
        hangs = self._signature.kind is Kind.TIMEOUT
        if verdict.fallback_random:  # as it stands, the program would differ from eager without the bug too
            return Answer(Outcome.OTHER, verdict.seconds, f"{seen.summary()}, with fallback_random on")
        if self._signature.matches(seen, Strength.REBASED if hangs else Strength.STRICT):
            return Answer(Outcome.SAME, verdict.seconds, seen.summary())
        if seen.kind is not Kind.ACCURACY and self._signature.matches(seen, Strength.REBASED):
            return Answer(Outcome.ALIKE, verdict.seconds, seen.summary(), to_data(seen))
        return Answer(Outcome.OTHER, verdict.seconds, seen.summary())

    def adopt(self, answer: Answer) -> None:
        """Go on with the signature of an answer that was `ALIKE`."""
        self._signature = from_data(answer.failure, Signature)

    def record(self, program: Program) -> Metadata:
        """Metadata of every value; the values themselves are stored where they are small enough in all."""
        text = render(program)
        verdict, calls = self._oracle.record(text, self._inputs, timeout=self._timeout)
        if not calls:
            self._ui.warn(f"The graph's values could not be recorded, so none can become an input ({_told(verdict)}).")
            return {}
        known = records(calls[0])
        names = _affordable(program, known)
        if names:
            _, calls = self._oracle.record(text, self._inputs, values=names, save=self._inputs, timeout=self._timeout)
        return records(calls[0]) if calls else known

    def hints(self, program: Program, failure: Failure | None) -> list[str]:
        """What the failure tells to start from; for a wrong result, the values where it begins."""
        if failure is None or failure.kind is not Kind.ACCURACY:
            return _hints(failure)
        self._ui.progress("looking where the values begin to differ")
        return self._oracle.diverge(render(program), self._inputs, timeout=self._timeout)

    def fake_valid(self, programs: Sequence[Program]) -> Sequence[bool | None]:
        """Whether each runs in eager, judged with fake tensors."""
        return self._oracle.fake([render(program) for program in programs], self._inputs)


def _until(capture: Capture, program: Program) -> Literal["native"] | None:
    """``native`` when the failure is raised by Inductor's own Python code while the only graph is compiled.

    A candidate that gets as far as the C++ or Triton compiler has then passed, and its slowest step can be left out.
    """
    failure, signature = capture.verdict.failure if capture.verdict else None, capture.signature
    if failure is None or signature is None or failure.kind is not Kind.COMPILE_ERROR:
        return None
    # Only an exception of Python code has frames in its signature, the message of a native compiler has none.
    early = failure.phase is Phase.COMPILE and bool(signature.frames)
    simple = program.recipe.backward == "none" and len(program.calls) == 1 and not program.bodies
    return "native" if early and simple else None


def _affordable(program: Program, known: Metadata) -> list[str]:
    """Values worth storing, the smallest first, until they fill the limit; none in the place of a stored input."""
    targets = {statement.target for statement in program.graph.statements if statement.target}
    targets -= {name.removesuffix(".pt") for name in program.stored}
    sized = []
    for name in targets:
        value = known.get(name)
        parts = value if isinstance(value, tuple) else (value,)
        tensors = [part for part in parts if isinstance(part, TensorRecord)]
        if tensors:
            sized.append((sum(part.elements * 8 for part in tensors), name))
    names, left = [], _LARGEST
    for size, name in sorted(sized):
        left -= size
        if left < 0:
            break
        names.append(name)
    return names


def _told(verdict: Verdict) -> str:
    return signature_of(verdict.failure).summary() if verdict.failure else verdict.note or str(verdict.status)


def _hints(failure: Failure | None) -> list[str]:
    """What the failure tells: values that the compiler was at work on, an operator, kernels in its message."""
    if failure is None:
        return []
    words = [failure.op] if failure.op else []
    return [*failure.origins, *words, *(link.message for link in failure.exceptions if "cpp_fused" in link.message)]


def _stock_inputs(source: Path, target: Path) -> None:
    """The captured values where candidates look for them, and nothing else; linked, since they may be large."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for file in source.glob("*.pt"):
        try:
            os.link(file, target / file.name)
        except OSError:  # another file system, or one without links
            shutil.copyfile(file, target / file.name)


def verified(
    oracle: Oracle, program: Program, signature: Signature, inputs: Path, timeout: float, runs: int
) -> tuple[Program, bool]:
    """(the result, whether it fails alike in fresh interpreters); with a tolerance where the usual is too tight."""
    failure = _fails_afresh(oracle, program, signature, inputs, timeout, runs)
    if failure is None:
        return program, False
    stated = with_tolerance(program, failure)
    kept = stated is program or _fails_afresh(oracle, stated, signature, inputs, timeout, runs) is not None
    return stated if kept else program, True


def _fails_afresh(
    oracle: Oracle, program: Program, signature: Signature, inputs: Path, timeout: float, runs: int
) -> Failure | None:
    """The failure of the result in a fresh interpreter with an empty cache, of one of `runs`, when it is alike."""
    for _ in range(runs):
        (verdict,) = oracle.check([render(program)], inputs, timeout=timeout)
        failure = focused(verdict.failure, signature) if verdict.failure else None
        if failure and verdict.status is Status.FAIL and signature.matches(signature_of(failure), Strength.REBASED):
            return failure
    return None


def _outcome(removal: Removal) -> str:
    return ": ".join(filter(None, (str(removal.outcome or ""), removal.note)))


def _twin(program: Program, twin: Twin | None) -> TwinFound | None:
    if twin is None:
        return None
    fails, passes = (render(it, footer=False).splitlines() for it in (program, twin.program))
    diff = difflib.unified_diff(fails, passes, "fails", "passes", lineterm="", n=1)
    return TwinFound(twin.what, "\n".join(diff))


def _note(result: Result) -> str:
    """How often a flaky failure was seen, and what that means for the result; empty for one that always came."""
    if result.failed == result.runs:
        return ""
    return (
        f"the captured graph failed in {result.failed} of {result.runs} runs; a smaller one was run up to "
        f"{result.repeats} times, so that one which fails as often was missed with a chance of {result.missed:.0%}"
    )


def _write(case: Case, result: Result, verified: bool) -> None:
    place = case.path / "minify"
    (place / "minify.json").unlink(missing_ok=True)  # it speaks of the files below, and is written when all are there
    for name in ("history", "also"):
        shutil.rmtree(place / name, ignore_errors=True)
    write_atomic(place / "best.py", render(result.program).encode())
    kept = set(result.program.stored)
    for file in (place / "inputs").glob("*.pt"):
        if file.name not in kept:
            file.unlink()
    steps = []
    for number, step in enumerate(result.history):
        script = f"history/{number:03d}.py"
        write_atomic(place / script, render(step.program).encode())
        steps.append(ReductionStep(step.name, step.statements, step.queries, script, round(step.seconds, 2)))
    for number, (_, program) in enumerate(result.others):
        write_atomic(place / "also" / f"{number:03d}.py", render(program).encode())
    neighbours = result.neighbours
    (place / "twin.py").unlink(missing_ok=True)
    if neighbours.twin is not None:
        write_atomic(place / "twin.py", render(neighbours.twin.program).encode())
    reduction = Reduction(
        statements_before=result.statements_before,
        statements_after=result.statements_after,
        queries=result.queries,
        seconds=round(result.seconds, 1),
        verified=verified,
        self_contained=not kept,
        steps=tuple(steps),
        stopped=result.stopped,
        others=tuple(note for note, _ in result.others),
        minimal=neighbours.minimal,
        removals=tuple(RemovalTried(it.what, _outcome(it)) for it in neighbours.removals),
        twin=_twin(result.program, neighbours.twin),
        repeats=result.repeats,
        note=_note(result),
    )
    write_atomic(place / "curve.svg", curve(reduction).encode())
    case.write("minify/minify.json", reduction)
