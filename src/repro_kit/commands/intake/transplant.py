"""Try a program on the CPU that was recorded on a device which this machine lacks."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from repro_kit.builds.interpreters import find_python
from repro_kit.case.case import Case
from repro_kit.case.handles import ABLATION, CAPTURE
from repro_kit.errors import Exit, StageError
from repro_kit.files import read_text
from repro_kit.model.ablation.cell import Ablation
from repro_kit.model.failure.failure import Kind, Layer, Status, Verdict
from repro_kit.model.failure.lost_name import lost_name
from repro_kit.model.failure.moved_to_cpu import MovedToCpu, gpu_only, in_words, is_same_on_cpu
from repro_kit.model.failure.signature import Signature, signature_of
from repro_kit.probe.repro_probe.protocol.programs import ValueOrder, WrittenValues
from repro_kit.program import Program, parse, render
from repro_kit.program.devices import devices_in, on_cpu
from repro_kit.program.resize import with_other_sizes
from repro_kit.runner.ask import NoAnswer, Probe, Question
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.session.case_paths import is_case
from repro_kit.session.script.interpreter_environment import environment
from repro_kit.session.stop import Stop

_DEVICE_OF_FILE = re.compile(rb"(?<![\w.])(cuda|xpu|mps|hpu|mtia|npu)(?::\d+)?(?![\w.])")
_MOST_SIZES = 8  # variants with other sizes
_WRITE = Question(seconds=300, module="repro_probe.query.write_values")


@dataclass(frozen=True)
class Recorded:
    """The failure of a program where it was recorded, and the layer that an ablation named there."""

    signature: Signature | None = None
    layer: Layer | None = None


def recorded_in_case(program: Path) -> Recorded:
    """What the case of the file `program` (``CASE/capture/program.py``) has about its failure."""
    directory = program.absolute().parent.parent
    if not is_case(directory):
        return Recorded()
    case = Case.open(directory)
    capture = case.load(CAPTURE) if case.holds(CAPTURE) else None
    ablation: Ablation | None = case.current(ABLATION)
    return Recorded((capture and capture.signature) or case.file.signature, ablation.layer if ablation else None)


def recorded_elsewhere(case: Case, python: str | None) -> Path | None:
    """The captured program of the case if it needs a device that this machine lacks; else None."""
    program = case.path / "capture" / "program.py"
    capture = case.current(CAPTURE)
    if capture is None or capture.subject != "program" or not program.is_file():
        return None
    programs, inputs = [parse(read_text(program))], program.parent / "inputs"
    if not lacking(programs, inputs, None):
        return None
    here = environment(find_python(python, Path.cwd(), os.environ))
    return program if lacking(programs, inputs, here.accelerator) else None


def lacking(programs: Sequence[Program], inputs: Path, accelerator: str | None) -> tuple[str, ...]:
    """The devices that the programs, or their stored values in `inputs`, need and this machine lacks."""
    needed = {device for program in programs for device in devices_in(program)}
    for name in {name for program in programs for name in program.stored}:
        needed |= _devices_of(inputs / name)
    return tuple(sorted(needed - {accelerator}))


def _devices_of(path: Path) -> set[str]:
    """The accelerators that a file of `torch.save` names; none for any other file."""
    try:
        with zipfile.ZipFile(path) as archive:
            pickles = [archive.read(name) for name in archive.namelist() if name.endswith("/data.pkl")]
    except (OSError, zipfile.BadZipFile):
        return set()
    return {device.decode() for data in pickles for device in _DEVICE_OF_FILE.findall(data)}


def move_values(names: Collection[str], source: Path, target: Path, python: str) -> None:
    """Write the stored values `names` of `source` to `target` as values on the CPU."""
    target.mkdir(parents=True, exist_ok=True)
    write_values(
        [
            {"source": str((source / name).absolute()), "target": str((target / name).absolute())}
            for name in sorted(names)
        ],
        source,
        python,
    )


def write_values(orders: Sequence[ValueOrder], directory: Path, python: str) -> None:
    """Write the values that are stored in `directory` as files for this machine, with the interpreter `python`."""
    try:
        Probe(python).ask(_WRITE, WrittenValues, orders)
    except NoAnswer as error:
        raise StageError(f"The values in {directory} cannot be read: {error.said}") from error


@dataclass(frozen=True)
class Trial:
    """One program on the CPU: the sizes in words, and the verdict."""

    program: Program
    sizes: str
    verdict: Verdict


def failing_on_cpu(
    programs: Sequence[Program],
    devices: tuple[str, ...],
    recorded: Recorded,
    oracle: ProgramOracle,
    inputs: Path,
    timeout: float,
) -> tuple[int, Program, Verdict, MovedToCpu]:
    """The first program that fails on the CPU as it was recorded on `devices`, after its number in `programs`.

    If nothing is known of the failure there, any failure with the recorded sizes is taken, and not called the same.
    Raises Stop, with the reason, if the program does not fail on the CPU.
    """
    signature = recorded.signature
    trials: list[Trial] = []
    for number, program in enumerate(programs):
        moved = on_cpu(program, devices)
        if signature is not None and signature.kind is Kind.ACCURACY:
            moved = moved.with_(recipe=moved.recipe.with_(check=True))
        for trial in _trials(moved, oracle, inputs, timeout, sizes=signature is not None):
            failure = trial.verdict.failure if trial.verdict.status is Status.FAIL else None
            if failure and (signature is None or is_same_on_cpu(signature, signature_of(failure))):
                moved_to_cpu = MovedToCpu(devices, signature, recorded.layer, trial.sizes)
                return number, trial.program, trial.verdict, moved_to_cpu
            trials.append(trial)
    raise Stop(*_ending(trials, devices, signature))


def check_names(verdict: Verdict) -> None:
    """Raise Stop if a program fails in eager because a name is undefined, which its original had defined."""
    lost = lost_name(verdict.failure) if verdict.status is Status.INVALID else ""
    if lost:
        raise Stop(
            Exit.CANNOT_RUN,
            f"The program uses a name that neither it nor this torch has, so it cannot be run here ({lost}); add what "
            "it lacks, or give the interpreter with the torch that it was made with (--python).",
        )


def _trials(program: Program, oracle: ProgramOracle, inputs: Path, timeout: float, *, sizes: bool) -> Iterator[Trial]:
    """The program with its own sizes, and then with others: one after the other, as long as the caller asks."""
    variants = [("", program)]
    if sizes:
        variants += list(with_other_sizes(program))[:_MOST_SIZES]
    texts = [render(variant) for _, variant in variants]
    for (words, variant), verdict in zip(variants, oracle.check(texts, inputs, timeout=timeout), strict=True):
        yield Trial(variant, words, verdict)


def _ending(trials: Sequence[Trial], devices: tuple[str, ...], recorded: Signature | None) -> tuple[Exit, str]:
    """The exit code and the sentence for a failure that does not show on the CPU."""
    first = trials[0].verdict
    check_names(first)
    if first.status is Status.CANNOT_TELL:
        return (
            Exit.FAILED,
            f"The program was recorded on {in_words(devices)}, and could not be run on the CPU: {first.note}",
        )
    seen = _seen(first)
    others = [trial for trial in trials if trial.sizes and trial.verdict.status in (Status.PASS, Status.FAIL)]
    if others:
        seen += f", and {len(others)} programs with larger and smaller sizes do not fail in the same way either"
    return Exit.CANNOT_RUN, gpu_only(devices, seen, recorded, runs=first.status is not Status.INVALID)


def _seen(verdict: Verdict) -> str:
    why = signature_of(verdict.failure).summary() if verdict.failure else verdict.note
    match verdict.status:
        case Status.PASS:
            return "it passes"
        case Status.INVALID if verdict.failure and verdict.failure.kind.policy.hangs:
            return "it does not end in time, not even without torch.compile (--query-timeout gives it longer)"
        case Status.INVALID:
            return f"it does not run, not even without torch.compile ({why})"
        case Status.FLAKY:
            return "it fails only now and then"
    return f"it fails otherwise ({why})"
