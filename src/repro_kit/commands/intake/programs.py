"""Make a case of a program, which is read from a program file, a repro script or artifact of torch, or a trace."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from repro_kit.artefact.plain import runnable
from repro_kit.case.case import Case, StageRecord
from repro_kit.case.stage_results import CAPTURE, ENVIRONMENT, OBSERVATION, Capture, Observation, ObservedFailure
from repro_kit.commands.intake.moved_to_cpu import (
    Recorded,
    check_backend,
    check_names,
    failing_on_cpu,
    lacking,
    move_values,
    recorded_in_case,
    write_values,
)
from repro_kit.errors import CannotRunError, Exit, ReproKitError, StageError, Stop, UsageError
from repro_kit.failure.classify import failure_from_text
from repro_kit.failure.failure import Status, Verdict
from repro_kit.failure.missing import lost_name, missing_resource, remedy
from repro_kit.failure.moved_to_cpu import MovedToCpu
from repro_kit.failure.signature import signature_of
from repro_kit.files import copy_atomic, open_plain, read_plain, read_text, write_atomic
from repro_kit.graph import Program, ScalarInput, TensorInput, parse, render, size
from repro_kit.graph.reading.artifact_forms import artifacts_in, left_out, operators_in
from repro_kit.graph.reading.artifact_names import renamed
from repro_kit.graph.reading.from_runnable import from_runnable
from repro_kit.options.stages import QueryOptions
from repro_kit.probe.repro_probe.protocol.orders import ValueOrder
from repro_kit.session.oracles import open_oracle, query_timeout, with_random
from repro_kit.subject.users_environment import environment
from repro_kit.trace import CompileFailure, Runnable, is_log, summarise
from repro_kit.ui import Ui

_STORAGE = re.compile(r"^\s+\w+ = reader\.storage\('(\w+)'", re.MULTILINE)
_SAVE_DIR = re.compile(r"^(?!\s*#).*\bsave_dir=(['\"])(.+?)\1", re.MULTILINE)


def storages_of(path: Path, text: str) -> Path | None:
    """Return the directory of the storages that the launcher `text` at `path` reads.

    It is below the ``save_dir`` that the launcher names, or in the launcher's own directory; None if there is none.
    """
    named = _SAVE_DIR.search(text)
    if named is None:
        return None
    directories = [Path(named[2]), path.parent / Path(named[2]).name, path.parent]
    return next((directory / "storages" for directory in directories if (directory / "storages").is_dir()), None)


def unpack(storages: Path, programs: Iterable[Program], target: Path, python: str) -> None:
    """Write the files that `programs` load to `target`, with the interpreter `python`, which has torch.

    Raises ReproKitError when the storages cannot be read.
    """
    loads = [
        input_
        for program in programs
        for input_ in program.inputs
        if isinstance(input_, TensorInput) and input_.data.file
    ]
    orders: list[ValueOrder] = [
        {
            "source": str(storages / storage_in(load.data.file or "")),
            "dtype": load.dtype or "torch.float32",
            "sizes": list(load.data.sizes or ()),
            "target": str(target.absolute() / (load.data.file or "")),
        }
        for load in loads
    ]
    target.mkdir(parents=True, exist_ok=True)
    write_values(orders, storages, python)


def storage_in(file: str) -> str:
    """Return the name of the storage that a program's stored file is made from (graph/reading/from_runnable.py)."""
    return file.removesuffix(".pt").partition("_")[2]


_NAMED = 3  # inputs that a sentence names
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
    which: int | None = None,
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
    inputs = _inputs(path, which, programs, case, ui)
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
        if newer := renamed(render(program), lost_name(verdict.failure)):
            program, verdict = _first_failing([parse(newer)], inputs, case, options)
    check_backend(verdict)
    if verdict.status is not Status.FAIL or verdict.failure is None:
        raise ending_of(verdict, path, program)
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


def _made_up(path: Path, program: Program) -> tuple[str, ...]:
    """The inputs whose values nobody recorded: an artifact of torch holds none, a program is what it says."""
    if _is_program(path):
        return ()
    return tuple(
        line.name
        for line in program.inputs
        if (isinstance(line, ScalarInput) and line.value is None)
        or (isinstance(line, TensorInput) and line.data.file is None and line.base is None)
    )


def ending_of(verdict: Verdict, path: Path, program: Program) -> Stop:
    """The end of the work on the program of the file `path`, which does not fail as one of the compiler's does.

    What values do in eager that nobody recorded says nothing about the program. Raises Stop for a name that was lost.
    """
    check_names(verdict)
    made_up = _made_up(path, program)
    if verdict.status is Status.CANNOT_TELL and verdict.failure and (lacking := missing_resource(verdict.failure)):
        return Stop(Exit.CANNOT_RUN, f"The program could not be run: this machine lacks {lacking}. {remedy(lacking)}.")
    code, sentence = _SENTENCES.get(verdict.status, (Exit.FAILED, "The program reported no failure"))
    why = signature_of(verdict.failure).summary() if verdict.failure else verdict.note
    if made_up and verdict.status is Status.INVALID:
        return Stop(
            Exit.CANNOT_RUN,
            f"The graph cannot be judged: no values of {_listed(made_up)} were recorded, and with others it fails "
            f"without torch.compile too ({why}); give the minifier's folder with its storages, or collect the script.",
        )
    if made_up and verdict.status is Status.PASS:
        return Stop(code, f"{sentence[:-1]}, with made-up values, since none were recorded.")
    return Stop(code, f"{sentence}: {why}" if why else sentence)


def _inputs(path: Path, which: int | None, programs: Sequence[Program], case: Case, ui: Ui) -> Path:
    """Return the directory of the values that the programs load."""
    text = "" if is_trace(path) else _text_of(path, which)  # a trace may be large, and holds no values
    storages = storages_of(path, text)
    if lost := lost_storages(path, text):
        ui.warn(f"{lost[0]}{f' and {len(lost) - 1} more files' * (len(lost) > 1)} with values are not there.")
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


_HEAD = 20_000  # bytes that show the format of a file
_LARGEST = 64 << 20  # bytes of a program
_PROGRAM = b"# repro-kit program"
_TEXTS = (".py", ".txt", "")  # tlparse writes artifacts as .txt
_COMPILES = re.compile(r"\btorch\.(compile|export)\b")
_REPRO = re.compile(r"^class Repro\(torch\.nn\.Module\)", re.MULTILINE)


def reader_of(path: Path, which: int | None = None) -> Callable[[Path, str | None], list[Program]] | None:
    """Return a function that reads the programs in `path`; None for a user's own script, or when there is no file.

    `which` is the number of an artifact in a file that holds several.
    The function takes the path and a compile id (for a trace; None: that of the first failure). It returns the
    programs that may fail, the likeliest first, and raises ReproKitError when there are none.
    """
    if is_trace(path):
        return _from_trace
    if not path.is_file():
        return None
    if path.suffix in _TEXTS:
        if _is_program(path):
            return lambda path, _: [parse(read_text(path))]
        if is_artifact(read_plain(path, _LARGEST).decode("utf-8", "replace")):
            return lambda path, _: [_from_runnable(path, which)]
    return None


def is_artifact(text: str) -> bool:
    """Whether `text` is an artifact of torch's, and no script of a user's who calls a module Repro."""
    return bool(_REPRO.search(text)) and ("run_repro" in text or not _COMPILES.search(text))


def _is_program(path: Path) -> bool:
    """Whether the file at `path` says that it is a program of repro-kit's."""
    if path.suffix != ".py" or not path.is_file():
        return False
    with open_plain(path) as file:
        return any(line.startswith(_PROGRAM) for line in file.read(_HEAD).splitlines())


def is_trace(path: Path) -> bool:
    """Whether `path` is a log of TORCH_TRACE, or a directory that holds one."""
    return any(map(is_log, path.glob("*.log"))) if path.is_dir() else path.suffix != ".py" and is_log(path)


def _from_runnable(path: Path, which: int | None) -> Program:
    text = _text_of(path, which)
    storages = storages_of(path, text)
    return _read(text, str(path), [file.name for file in storages.iterdir()] if storages else [])


def _text_of(path: Path, which: int | None) -> str:
    """The text of the artifact number `which` in the file. Raises UsageError where that names none of several."""
    parts = artifacts_in(read_text(path).replace("\r\n", "\n"))
    words = [_listed(operators_in(part)) for part in parts]
    return parts[chosen(which, words, f"{path} holds {len(parts)} artifacts")]


def chosen(which: int | None, listed: Sequence[str], holds: str) -> int:
    """The place of the one that `which` chooses of several. Raises UsageError if it names none of those `listed`."""
    if which is None and len(listed) == 1:
        return 0
    if which is None or which > len(listed):
        lines = [f"\n  {number}: {words}" for number, words in enumerate(listed, 1)]
        raise UsageError(f"{holds}; choose one with --which N:{''.join(lines)}")
    return which - 1


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def lost_storages(path: Path, text: str) -> tuple[str, ...]:
    """The files with values that the launcher `text` at `path` reads, and that are not there."""
    named = dict.fromkeys(_STORAGE.findall(text))
    if not named or _SAVE_DIR.search(text) is None:
        return ()
    place = storages_of(path, text) or path.parent / "storages"
    return tuple(str(place / name) for name in named if not (place / name).exists())


def _read(text: str, name: str, storages: Collection[str] = ()) -> Program:
    try:
        return from_runnable(text, storages)
    except StageError as error:
        raise UsageError(f"{name} cannot be read as a program: {error}") from error


def holds_failed_program(path: Path) -> bool:
    """Whether `path` is a trace of a failed compile whose graph can be reduced."""
    if not is_trace(path):
        return False
    try:
        scripts, failed = _chosen(path, None)
        return failed is not None and bool(_programs(scripts))
    except ReproKitError:
        return False


def _from_trace(path: Path, compile_id: str | None) -> list[Program]:
    scripts, _ = _chosen(path, compile_id)
    return _programs(scripts)


def _programs(scripts: Sequence[Runnable]) -> list[Program]:
    for script in scripts:
        if lost := left_out(script.text):
            raise CannotRunError(
                f"The graph {script.compile_id} of {script.log} lacks the bodies of its operators ({', '.join(lost)}), "
                "which no record of the trace shows; collect the script."
            )
    return [_read(script.text, f"The graph {script.compile_id} of {script.log}") for script in scripts]


def recorded_failure(path: Path, compile_id: str | None, which: int | None = None) -> Recorded:
    """How the program in `path` failed where it was recorded, if the trace or the case around the file has it."""
    if not is_trace(path):
        if _is_program(path):
            return recorded_in_case(path)
        return Recorded(is_wrong_result=_from_runnable(path, which).recipe.check)
    _, failed = _chosen(path, compile_id)
    failure = failure_from_text(failed.text) if failed else None
    return Recorded(signature_of(failure) if failure else None)


def _chosen(path: Path, compile_id: str | None) -> tuple[list[Runnable], CompileFailure | None]:
    """The scripts of one compile in the trace at `path`, and how that compile failed.

    It is the first failed compile, else the last one, since a crash or a hang ends the trace. Each log is the trace of
    another process, whose compiles may have the same ids.
    """
    summary = summarise(path)
    compiles = list(dict.fromkeys((script.log, script.compile_id) for script in summary.runnables))
    names = ", ".join(dict.fromkeys(name for _, name in compiles))
    if not compiles:
        raise UsageError(f"The trace {path} holds no fx_graph_runnable: no graph reached Inductor.")
    wanted = [compile_ for compile_ in compiles if compile_id in (None, compile_[1])]
    if not wanted:
        raise UsageError(f"The trace {path} holds no fx_graph_runnable of {compile_id}; it has {names} (--compile-id).")
    failed = [one for one in summary.failures if (one.log, one.compile_id) in wanted]
    if summary.failures and not failed and compile_id is None:
        first = summary.failures[0]
        raise UsageError(
            f"The trace {path} holds no fx_graph_runnable of {first.compile_id} in {first.log}, which failed before it"
            f" reached Inductor; graphs that did not fail: {names} (--compile-id)."
        )
    log, name = (failed[0].log, failed[0].compile_id) if failed else wanted[-1]
    scripts = [script for script in summary.runnables if (script.log, script.compile_id) == (log, name)]
    return scripts, failed[0] if failed else None
