"""Read the programs in a program file, a repro script or artifact of torch, or a trace."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from repro_kit.commands.intake.minifier_storages import storages_of
from repro_kit.commands.intake.transplant import Recorded, recorded_in_case
from repro_kit.errors import UsageError
from repro_kit.files import read_text
from repro_kit.model.failure.classify import failure_from_text
from repro_kit.model.failure.signature import signature_of
from repro_kit.plain_file import read_plain
from repro_kit.program import Program, parse
from repro_kit.program.reading.from_runnable import from_runnable
from repro_kit.trace import TraceSummary, summarise

_HEAD = 20_000  # characters that show the format of a file
_LARGEST = 64 << 20  # bytes of a program
_PROGRAM = "# repro-kit program"
_REPRO = re.compile(r"^class Repro\(torch\.nn\.Module\)", re.MULTILINE)
_TRACE = "dedicated_log_torch_trace_*.log"


def reader_of(path: Path) -> Callable[[Path, str | None], list[Program]] | None:
    """Return a function that reads the programs in `path`; None for a user's own script, or when there is no file.

    The function takes the path and a compile id (for a trace; None: that of the first failure). It returns the
    programs that may fail, the likeliest first, and raises ReproKitError when there are none.
    """
    if path.is_dir():
        return _from_trace if any(path.glob(_TRACE)) else None
    if not path.is_file():
        return None
    with path.open(encoding="utf-8", errors="replace") as file:
        head = file.read(_HEAD)
    if path.suffix == ".py":
        if any(line.startswith(_PROGRAM) for line in head.splitlines()):
            return lambda path, _: [parse(read_text(path))]
        if _REPRO.search(read_plain(path, _LARGEST).decode("utf-8", "replace")):
            return lambda path, _: [_from_runnable(path)]
    return _from_trace if path.match(_TRACE) else None


def _from_runnable(path: Path) -> Program:
    text = read_text(path)
    storages = storages_of(path, text)
    return from_runnable(text, [file.name for file in storages.iterdir()] if storages else [])


def _text(path: Path) -> str:
    try:
        return read_plain(path, _LARGEST).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8; a program must be.") from error


def _from_trace(path: Path, compile_id: str | None) -> list[Program]:
    summary = summarise(path)
    compile_ids = list(dict.fromkeys(runnable.compile_id for runnable in summary.runnables))
    if not compile_ids:
        raise UsageError(f"The trace {path} holds no fx_graph_runnable: no graph reached Inductor.")
    wanted = compile_id or _failing(summary, compile_ids)
    texts = [runnable.text for runnable in summary.runnables if runnable.compile_id == wanted]
    if not texts:
        raise UsageError(
            f"The trace {path} holds no fx_graph_runnable of {wanted}; it has {', '.join(compile_ids)} (--compile-id)."
        )
    return [from_runnable(text) for text in texts]


def recorded_failure(path: Path, compile_id: str | None) -> Recorded:
    """How the program in `path` failed where it was recorded, as far as the trace or the case around the file says."""
    if not (path.is_dir() or path.match(_TRACE)):
        return recorded_in_case(path)
    summary = summarise(path)
    failures = [one for one in summary.failures if compile_id in (None, one.compile_id)]
    failure = failure_from_text(failures[0].text) if failures else None
    return Recorded(signature_of(failure) if failure else None)


def _failing(summary: TraceSummary, compile_ids: list[str]) -> str:
    """Return the compile id of the first failure, else of the last graph, since a crash or a hang ends the trace."""
    return summary.failures[0].compile_id if summary.failures else compile_ids[-1]
