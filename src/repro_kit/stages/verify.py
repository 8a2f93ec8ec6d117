"""Verify: does a bundle, a case or a repro.py still fail here, and in the same way?"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson
from cattrs.errors import BaseValidationError

from repro_kit.bundle.archive import unpack
from repro_kit.bundle.contents import MANIFEST, SCHEMA
from repro_kit.bundle.judge import Ending
from repro_kit.errors import Exit, ReproKitError
from repro_kit.model.serialize import from_data, to_data
from repro_kit.model.signature import Signature, Strength
from repro_kit.stages.check import RunOfRepro, is_same, run_repro
from repro_kit.stages.options import Options
from repro_kit.stages.subject import default_python
from repro_kit.ui import Ui

_MARGIN = 60.0  # seconds for the start of an interpreter with torch
_SHOWN_LINES = 60


class Answer(StrEnum):
    """What verify says."""

    SAME = "SAME"
    OTHER = "OTHER"
    FIXED = "FIXED"
    CANNOT_RUN = "CANNOT RUN HERE"


EXITS = {
    Answer.SAME: Exit.OK,
    Answer.OTHER: Exit.FAILED,
    Answer.FIXED: Exit.NOTHING_FAILED,
    Answer.CANNOT_RUN: Exit.CANNOT_RUN,
}


@dataclass(frozen=True)
class Claim:
    """What the bundle says of itself; a bare `repro.py` says nothing."""

    signature: Signature | None = None
    torch: str | None = None
    python: str | None = None
    platform: str | None = None
    accelerator: str | None = None
    limit: float | None = None  # seconds
    layer: str | None = None


@dataclass(frozen=True)
class Here:
    """The interpreter that runs it."""

    python: str
    torch: str | None
    platform: str
    accelerator: str | None
    problem: str = ""  # why it cannot import torch


@dataclass(frozen=True)
class Result:
    """The answer, and what it rests on; `verify --json` prints it."""

    answer: Answer
    sentence: str
    seconds: float
    expected: str | None = None  # signature, in words
    found: str | None = None
    differences: tuple[str, ...] = field(default=())  # between the machine of the bundle and this one


def verify(target: Path, *, python: str | None, options: Options, ui: Ui) -> Exit:
    """Run what `target` (a bundle, a case, or a `repro.py`) holds with `python`, and say whether it still fails.

    It runs foreign code: shows it and asks first, unless ``options.yes``. Raises ReproKitError when `target` is none
    of the three, is damaged, or may not be run.
    """
    interpreter = python or default_python(os.environ)
    with opened(target) as directory:
        claim = claim_of(directory, target)
        ask(target, directory, interpreter, options, ui)
        with ui.stage("verify"):
            ui.progress("running repro.py")
            timeout = (claim.limit or options.timeout) + _MARGIN
            run = run_repro(interpreter, directory, timeout=timeout)
            result = _judge(run, claim, _here(interpreter, directory))
            ui.done(f"{result.answer}: {result.sentence}")
    for difference in result.differences:
        ui.note(difference)
    if result.answer is not Answer.SAME:
        ui.detail(run.output[-4000:])
    ui.result({**asdict(result), "exit": int(EXITS[result.answer])})
    return EXITS[result.answer]


@contextmanager
def opened(target: Path) -> Iterator[Path]:
    """A directory with `repro.py` and what it needs; removed afterwards when it was unpacked."""
    if target.is_dir():
        for directory in (target / "bundle", target):
            if (directory / "repro.py").is_file():
                yield directory
                return
        raise ReproKitError(f"{target} holds no repro.py; `repro-kit bundle {target}` makes one of a case.")
    place = Path(tempfile.mkdtemp(prefix="repro-kit-"))
    try:
        if target.suffix == ".py":
            shutil.copyfile(target, place / "repro.py")
            for name in ("inputs", "files", MANIFEST):
                _copy_beside(target, name, place)
        else:
            unpack(target, place)
            if not (place / "repro.py").is_file():
                raise ReproKitError(f"{target} is not a bundle: it has no repro.py.")
        yield place
    except OSError as error:
        raise ReproKitError(f"Cannot read {target}: {error.strerror}.") from error
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _copy_beside(target: Path, name: str, place: Path) -> None:
    """Take along what lies beside a `repro.py` that was unpacked by hand."""
    source = target.with_name(name)
    if source.is_dir() and target.with_name(MANIFEST).is_file():
        shutil.copytree(source, place / name)
    elif source.is_file():
        shutil.copyfile(source, place / name)


def claim_of(directory: Path, target: Path) -> Claim:
    """What the bundle unpacked in `directory` says of itself."""
    path = directory / MANIFEST
    if not path.is_file():
        return Claim()
    try:
        data: dict[str, Any] = orjson.loads(path.read_bytes())
        if data["schema"] > SCHEMA:
            raise ReproKitError(
                f"{target} was made by a newer repro-kit (schema {data['schema']}, this one knows {SCHEMA}); upgrade."
            )
        known = {name: data.get(name) for name in ("torch", "python", "platform", "accelerator", "limit", "layer")}
        return Claim(signature=from_data(data["signature"], Signature), **known)
    except (BaseValidationError, KeyError, TypeError, ValueError) as error:
        raise ReproKitError(f"{target} is damaged: its {MANIFEST} cannot be read.") from error


def ask(target: Path, directory: Path, python: str, options: Options, ui: Ui) -> None:
    """Show what is about to run, and ask whether it may. Raises ReproKitError when it may not."""
    if options.yes:
        return
    lines = (directory / "repro.py").read_text(encoding="utf-8", errors="replace").splitlines()
    more = [f"… {len(lines) - _SHOWN_LINES} more lines"] if len(lines) > _SHOWN_LINES else []
    ui.print("\n".join([*lines[:_SHOWN_LINES], *more]))
    others = sorted(path.relative_to(directory).as_posix() for path in directory.glob("files/**/*") if path.is_file())
    if others:
        ui.print("It runs these files as well: " + ", ".join(others))
    if not ui.confirm(f"Run this code from {target} with {python}, with your rights?"):
        raise ReproKitError(f"Nothing was run; look at {target}, and give --yes if you trust it.")


#: Runs in the interpreter; the last line of its output is JSON.
_LOOK = """
import json, platform, sys
told = {"python": platform.python_version(), "platform": platform.platform(), "torch": None, "accelerator": None}
try:
    import torch
    told["torch"] = str(torch.__version__)
    told["accelerator"] = "cuda" if torch.cuda.is_available() else None
except Exception as error:
    told["problem"] = f"{type(error).__name__}: {error}"
print(json.dumps(told))
"""


def _here(python: str, directory: Path) -> Here:
    with tempfile.TemporaryDirectory(prefix="repro-kit-") as place:
        (Path(place) / "repro.py").write_text(_LOOK, encoding="utf-8")
        run = run_repro(python, Path(place), timeout=2 * _MARGIN)
    try:
        told = next(line for line in run.output.splitlines() if line.startswith("{"))
        return Here(**json.loads(told))
    except (StopIteration, ValueError, TypeError):
        raise ReproKitError(
            f"{python} does not work as a Python interpreter; give --python PATH.", Exit.CANNOT_RUN
        ) from None


def _judge(run: RunOfRepro, claim: Claim, here: Here) -> Result:
    reading = run.reading
    strength = Strength.REBASED if claim.torch in (None, here.torch) else Strength.CROSS_VERSION
    differences = tuple(_differences(claim, here))
    expected = claim.signature.summary() if claim.signature else None
    found = reading.signature.summary() if reading.signature else None

    def answer(what: Answer, sentence: str) -> Result:
        return Result(what, sentence, round(run.seconds, 1), expected, found, differences)

    match reading.ending:
        case Ending.PASSES:
            return answer(Answer.FIXED, f"it passes with torch {here.torch}")
        case Ending.CANNOT_RUN | Ending.BROKEN:
            return answer(Answer.CANNOT_RUN, here.problem or reading.reason)
    if claim.signature is None:
        return answer(Answer.SAME, f"it fails ({found or reading.reason}); a bare repro.py does not say how it should")
    if is_same(reading, claim.signature, strength):
        return answer(Answer.SAME, f"it fails with torch {here.torch} as the bundle says: {expected}")
    return answer(Answer.OTHER, "; ".join(_unlike(claim.signature, reading.signature)) or reading.reason)


def _unlike(expected: Signature, found: Signature | None) -> Iterator[str]:
    """How two signatures differ, field by field."""
    if found is None:
        return
    mine, others = to_data(expected), to_data(found)
    for name in dict.fromkeys([*mine, *others]):
        if name != "magnitude" and mine.get(name) != others.get(name):
            yield f"{name}: {_shown(mine.get(name))} expected, {_shown(others.get(name))} found"


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    return " > ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _differences(claim: Claim, here: Here) -> Iterator[str]:
    for name in ("torch", "python", "accelerator"):
        there, now = getattr(claim, name), getattr(here, name)
        if claim.torch is not None and there != now:
            yield f"{name} here: {now or 'none'}; the bundle was made with {there or 'none'}"
