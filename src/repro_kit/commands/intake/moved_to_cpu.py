"""Move a program, its stored values or an exported program to the CPU, because this machine lacks its device."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickletools
import re
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from repro_kit.builds.interpreters import find_python
from repro_kit.case.case import Case
from repro_kit.case.stage_results import ABLATION, CAPTURE
from repro_kit.diagnosis.cell import Ablation
from repro_kit.errors import Exit, StageError, Stop, UsageError
from repro_kit.failure.failure import Layer, Status, Verdict
from repro_kit.failure.kinds import Kind
from repro_kit.failure.missing import lost_name
from repro_kit.failure.moved_to_cpu import MovedToCpu, gpu_only, in_words, is_same_on_cpu
from repro_kit.failure.signature import Signature, signature_of
from repro_kit.failure.tracebacks import short
from repro_kit.files import read_text, replacing
from repro_kit.graph import Program, parse, render
from repro_kit.graph.placement import device_type, devices_in, on_cpu
from repro_kit.graph.reading.artifact_names import renamed
from repro_kit.graph.sizes import with_other_sizes
from repro_kit.probe.repro_probe.protocol.orders import ValueOrder, WrittenValues
from repro_kit.runner.ask import NoAnswer, Probe, Question
from repro_kit.runner.program_oracle import ProgramOracle
from repro_kit.session.case_paths import is_case
from repro_kit.subject.users_environment import environment

_DEVICE_OF_FILE = re.compile(rb"(?<![\w.])(cuda|xpu|mps|hpu|mtia|npu)(?::\d+)?(?![\w.])")
_MOST_SIZES = 8  # variants with other sizes
_WRITE = Question(seconds=300, module="repro_probe.query.write_values")


@dataclass(frozen=True)
class Recorded:
    """The failure of a program where it was recorded, and the layer that an ablation named there.

    `is_wrong_result`: no more is known of the failure than that a minifier looked for a wrong result.
    """

    signature: Signature | None = None
    layer: Layer | None = None
    is_wrong_result: bool = False


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
            check_backend(trial.verdict)
            failure = trial.verdict.failure if trial.verdict.status is Status.FAIL else None
            if failure and recorded.is_wrong_result and failure.kind is not Kind.ACCURACY:
                failure = None
            if failure and (signature is None or is_same_on_cpu(signature, signature_of(failure))):
                moved_to_cpu = MovedToCpu(devices, signature, recorded.layer, trial.sizes)
                return number, trial.program, trial.verdict, moved_to_cpu
            trials.append(trial)
    raise Stop(*_ending(trials, devices, recorded))


def check_names(verdict: Verdict) -> None:
    """Raise Stop if a program fails in eager because a name is undefined, which its original had defined."""
    lost = lost_name(verdict.failure) if verdict.status is Status.INVALID else ""
    if lost:
        raise Stop(
            Exit.CANNOT_RUN,
            f"The program uses a name, or an operator with arguments, that neither it nor this torch has, so it cannot "
            f"be run here ({lost}); add what it lacks, or give the interpreter with the torch that it was made with "
            "(--python).",
        )


def check_backend(verdict: Verdict) -> None:
    """Raise Stop if the program is compiled with a backend that this torch does not know: nothing was compiled then."""
    links = verdict.failure.exceptions if verdict.failure else ()
    unknown = next((link for link in links if short(link.type) == "InvalidBackend"), None)
    if unknown is not None:
        raise Stop(
            Exit.CANNOT_RUN,
            f"The program is compiled with a backend that is not registered here ({unknown.message.splitlines()[0]}); "
            "import the package that registers it in the script and collect that, or change the backend in the file.",
        )


def _trials(
    program: Program, oracle: ProgramOracle, inputs: Path, timeout: float, *, sizes: bool, older: bool = True
) -> Iterator[Trial]:
    """The program with its own sizes, and then with others: one after the other, as long as the caller asks.

    `older`: it may be of another torch, which called an operator otherwise.
    """
    variants = [("", program)]
    if sizes:
        variants += list(with_other_sizes(program))[:_MOST_SIZES]
    texts = [render(variant) for _, variant in variants]
    for (words, variant), verdict in zip(variants, oracle.check(texts, inputs, timeout=timeout), strict=True):
        newer = renamed(texts[0], lost_name(verdict.failure)) if older else ""
        if newer:
            yield from _trials(parse(newer), oracle, inputs, timeout, sizes=sizes, older=False)
            return
        yield Trial(variant, words, verdict)


def _ending(trials: Sequence[Trial], devices: tuple[str, ...], recorded: Recorded) -> tuple[Exit, str]:
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
    runs = first.status is not Status.INVALID
    sentence = gpu_only(devices, seen, recorded.signature, runs=runs, is_wrong_result=recorded.is_wrong_result)
    return Exit.CANNOT_RUN, sentence


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


_ARCHIVE = b"PK\3\4"  # what `torch.save` writes is an archive in the archive
_STRINGS = ("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE")
_DIGITS = 12  # of the name of a program that was moved
_CPU = b"X\3\0\0\0cpu"  # the string "cpu" in a pickle


def devices_in_file(path: Path) -> frozenset[str]:
    """The types of the accelerators that the exported program in `path` names: ``cuda``, ``xpu`` …

    Raises UsageError when the file is damaged.
    """
    found: set[str] = set()

    def look(device: str) -> bool:
        found.add(device)
        return False

    with _readable(path):
        for _ in _records(path, look):
            pass
    return frozenset(found)


def lacking_here(path: Path, python: str | None) -> tuple[str, ...]:
    """The devices that the exported program in `path` names, and this machine lacks."""
    named = devices_in_file(path)
    if not named:
        return ()
    here = environment(find_python(python, Path.cwd(), os.environ))
    return tuple(sorted(named - {here.accelerator}))


def path_on_cpu(source: Path, directory: Path) -> Path:
    """Where the program of `source` lies in the case `directory` when it was moved. Another program: another name."""
    return directory / f"exported_on_cpu_{digest_of(source)[:_DIGITS]}.pt2"


def digest_of(path: Path) -> str:
    """The SHA-256 of the file at `path`."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_on_cpu(source: Path, target: Path, devices: Collection[str]) -> None:
    """Write the exported program in `source` to `target`, with every device of one of the types `devices` the CPU."""
    with _readable(source), replacing(target) as file:
        _write(_records(source, devices.__contains__), file)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, ValueError, RecursionError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise UsageError(f"{path} is damaged ({error}); save the program again.") from error


def _records(source: Path | IO[bytes], moves: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """The files in the archive, each with its name; devices of the types that `moves` accepts become the CPU."""
    with zipfile.ZipFile(source) as archive:
        for record in archive.infolist():
            yield record.filename, _record(record.filename, archive.read(record), moves)


def _write(records: Iterable[tuple[str, bytes]], target: IO[bytes]) -> None:
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in records:
            archive.writestr(name, data)


def _record(name: str, data: bytes, moves: Callable[[str], bool]) -> bytes:
    if data.startswith(_ARCHIVE):
        inner = io.BytesIO()
        _write(_records(io.BytesIO(data), moves), inner)
        return inner.getvalue()
    if name.endswith(".json") and data.startswith(b"{"):
        return json.dumps(json.loads(data, object_hook=lambda fields: _fields(fields, moves))).encode()
    return _pickle(data, moves) if name.endswith("/data.pkl") else data


def _fields(fields: dict[str, Any], moves: Callable[[str], bool]) -> dict[str, Any]:
    """A JSON object: a device, a string that may name one (of autocast), or anything else."""
    if fields.keys() == {"type", "index"} and _is_moved(fields["type"], moves):
        return {"type": "cpu", "index": None}
    if fields.keys() == {"as_string"} and _is_moved(fields["as_string"], moves):
        return {"as_string": "cpu"}
    return fields


def _pickle(data: bytes, moves: Callable[[str], bool]) -> bytes:
    """The pickle `data`, with other strings in it. Frames, which hold a length, are left out: they may be."""
    steps = list(pickletools.genops(data))
    ends = [at for _, _, at in steps[1:]] + [len(data)]
    parts = []
    for (step, value, at), end in zip(steps, ends, strict=True):
        if step.name in _STRINGS and _is_moved(value, moves):
            parts.append(_CPU)
        elif step.name != "FRAME":
            parts.append(data[at:end])
    return b"".join(parts)


def _is_moved(name: Any, moves: Callable[[str], bool]) -> bool:
    device = device_type(name) if isinstance(name, str) else ""
    return bool(device) and moves(device)
