"""Make a case from a file that holds a program. Without a script there is no run to observe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from repro_kit.case.case import Case, StageRecord
from repro_kit.case.handles import CAPTURE, ENVIRONMENT, OBSERVATION
from repro_kit.case.stage_results import Capture, Observation, ObservedFailure
from repro_kit.commands.intake.minifier_storages import storages_of, unpack
from repro_kit.commands.intake.transplant import Recorded, check_names, failing_on_cpu, lacking, move_values
from repro_kit.errors import Exit, UsageError
from repro_kit.files import copy_atomic, read_text, write_atomic
from repro_kit.model.failure.failure import Status, Verdict
from repro_kit.model.failure.missing_resource import missing_resource, remedy
from repro_kit.model.failure.moved_to_cpu import MovedToCpu
from repro_kit.model.failure.signature import signature_of
from repro_kit.program import parse, render, size
from repro_kit.program.plain import runnable
from repro_kit.program.program import Program
from repro_kit.session.comparison_recipe import with_random
from repro_kit.session.options import QueryOptions
from repro_kit.session.oracles import open_oracle, query_timeout
from repro_kit.session.script.interpreter_environment import environment
from repro_kit.session.stop import Stop
from repro_kit.ui import Ui

_SENTENCES = {
    Status.PASS: (Exit.NOTHING_FAILED, "Nothing failed: the program passes here."),
    Status.INVALID: (Exit.USER_BUG, "The program fails without torch.compile too"),
    Status.CANNOT_TELL: (Exit.FAILED, "The program could not be run"),
    Status.FLAKY: (Exit.FAILED, "The program fails only now and then"),
}


def case_from_program(
    path: Path,
    programs: Sequence[Program],
    case: Case,
    options: QueryOptions,
    ui: Ui,
    recorded: Callable[[], Recorded] = Recorded,
) -> None:
    """Store the first of `programs` (read from `path`) that fails in `case`, as if it had been observed and captured.

    Programs for a device that this machine lacks are tried on the CPU; `recorded` reads how they failed there. A case
    that already holds one of the programs stays as it is. Raises ReproKitError when the programs cannot be run, or the
    case holds a different program. Raises Stop when no program fails.
    """
    captured = case.path / "capture" / "program.py"
    original = captured.with_name("recorded.py")  # as it was read, if it was moved to the CPU
    if captured.is_file() and case.stage("capture") is not None:
        taken = original if original.is_file() else captured
        if render(parse(read_text(taken))) not in map(render, (*programs, *map(with_random, programs))):
            raise UsageError(f"{path} has changed since {case.path} was made from it; start anew with --fresh.")
        ui.done("done before")
        return
    here = environment(case.file.subject.python)
    case.store(ENVIRONMENT, here)
    inputs = _inputs(path, programs, case)
    devices = lacking(programs, inputs, here.accelerator)
    moved_to_cpu = None
    if devices:
        inputs = _on_cpu(programs, inputs, case)
        with open_oracle(case, options.jobs) as oracle:
            number, program, verdict, moved_to_cpu = failing_on_cpu(
                programs, devices, recorded(), oracle, inputs, query_timeout(case, options)
            )
        write_atomic(original, runnable(programs[number]).encode())
    else:
        program, verdict = _first_failing(programs, inputs, case, options)
    if verdict.status is not Status.FAIL or verdict.failure is None:
        raise _ending(verdict)
    failure = verdict.failure
    signature = signature_of(failure)
    if verdict.fallback_random:
        program, verdict = with_random(program), replace(verdict, fallback_random=False)
    write_atomic(captured, runnable(program).encode())
    for name in program.stored:
        if not (case.path / "capture" / "inputs" / name).exists():
            copy_atomic(inputs / name, case.path / "capture" / "inputs" / name)
    case.store(OBSERVATION, _observation(case, verdict, ObservedFailure(failure, signature)))
    case.store(CAPTURE, _capture(program, verdict, moved_to_cpu))
    case.update(signature=signature)
    label = f" ({moved_to_cpu.label(None)})" if moved_to_cpu else ""
    note = f"taken from {path.name}: {signature.summary()}{label}"
    for name in ("observe", "capture"):
        case.record(StageRecord(name, "done", note))
    ui.done(note)


def _ending(verdict: Verdict) -> Stop:
    """The end of the work on a program that does not fail as one of the compiler's does."""
    check_names(verdict)
    if verdict.status is Status.CANNOT_TELL and verdict.failure and (lacking := missing_resource(verdict.failure)):
        return Stop(Exit.CANNOT_RUN, f"The program could not be run: this machine lacks {lacking}. {remedy(lacking)}.")
    code, sentence = _SENTENCES.get(verdict.status, (Exit.FAILED, "The program reported no failure"))
    why = signature_of(verdict.failure).summary() if verdict.failure else verdict.note
    return Stop(code, f"{sentence}: {why}" if why else sentence)


def _inputs(path: Path, programs: Sequence[Program], case: Case) -> Path:
    """Return the directory of the values that the programs load."""
    script = path.suffix == ".py"  # a trace may be large, and holds no values
    storages = storages_of(path, path.read_text(encoding="utf-8", errors="replace")) if script else None
    if storages is None:
        return path.parent / "inputs"
    unpack(storages, programs, case.path / "capture" / "inputs", case.file.subject.python)
    return case.path / "capture" / "inputs"


def _on_cpu(programs: Sequence[Program], inputs: Path, case: Case) -> Path:
    """Return the directory of the values that the programs load, on the CPU."""
    names = {name for program in programs for name in program.stored}
    target = case.path / "capture" / "inputs"
    if names:
        move_values(names, inputs, target, case.file.subject.python)
    return target


def _first_failing(
    programs: Sequence[Program], inputs: Path, case: Case, options: QueryOptions
) -> tuple[Program, Verdict]:
    """Return the first program that fails, else the last program, with its verdict."""
    texts = [render(program) for program in programs]
    with open_oracle(case, options.jobs) as oracle:
        for judged in zip(programs, oracle.check(texts, inputs, timeout=query_timeout(case, options)), strict=True):
            if judged[1].status is Status.FAIL:
                break
    return judged


def _observation(case: Case, verdict: Verdict, failure: ObservedFailure) -> Observation:
    return Observation(
        argv=case.file.subject.argv,
        exit_status=1,
        signal=failure.failure.signal,
        timed_out=False,
        seconds=verdict.seconds,
        peak_memory=0,
        python=case.file.subject.python,
        torch=None,
        failures=(failure,),
        graphs=1,
        eager=Status.PASS,
    )


def _capture(program: Program, verdict: Verdict, moved_to_cpu: MovedToCpu | None) -> Capture:
    failure = verdict.failure
    return Capture(
        subject="program",
        border="dynamo",
        graphs=1,
        statements=size(program),
        verdict=verdict,
        signature=signature_of(failure) if failure else None,
        recipe=program.recipe,
        moved_to_cpu=moved_to_cpu,
    )
