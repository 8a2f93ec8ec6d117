"""Read the programs in a program file, a repro script or artifact of torch, or a trace."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from repro_kit.commands.intake.minifier_storages import storages_of
from repro_kit.commands.intake.transplant import Recorded, recorded_in_case
from repro_kit.errors import ReproKitError, StageError, UsageError
from repro_kit.files import read_text
from repro_kit.model.failure.classify import failure_from_text
from repro_kit.model.failure.signature import signature_of
from repro_kit.plain_file import open_plain, read_plain
from repro_kit.program import Program, parse
from repro_kit.program.reading.from_runnable import from_runnable
from repro_kit.trace import CompileFailure, Runnable, is_log, summarise

_HEAD = 20_000  # bytes that show the format of a file
_LARGEST = 64 << 20  # bytes of a program
_PROGRAM = "# repro-kit program"
_REPRO = re.compile(r"^class Repro\(torch\.nn\.Module\)", re.MULTILINE)


def reader_of(path: Path) -> Callable[[Path, str | None], list[Program]] | None:
    """Return a function that reads the programs in `path`; None for a user's own script, or when there is no file.

    The function takes the path and a compile id (for a trace; None: that of the first failure). It returns the
    programs that may fail, the likeliest first, and raises ReproKitError when there are none.
    """
    if is_trace(path):
        return _from_trace
    if not path.is_file():
        return None
    with open_plain(path) as file:
        head = file.read(_HEAD).decode("utf-8", "replace")
    if path.suffix == ".py":
        if any(line.startswith(_PROGRAM) for line in head.splitlines()):
            return lambda path, _: [parse(read_text(path))]
        if _REPRO.search(read_plain(path, _LARGEST).decode("utf-8", "replace")):
            return lambda path, _: [_from_runnable(path)]
    return None


def is_trace(path: Path) -> bool:
    """Whether `path` is a log of TORCH_TRACE, or a directory that holds one."""
    return any(map(is_log, path.glob("*.log"))) if path.is_dir() else path.suffix != ".py" and is_log(path)


def _from_runnable(path: Path) -> Program:
    text = read_text(path)
    storages = storages_of(path, text)
    return _read(text, str(path), [file.name for file in storages.iterdir()] if storages else [])


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
    return [_read(script.text, f"The graph {script.compile_id} of {script.log}") for script in scripts]


def recorded_failure(path: Path, compile_id: str | None) -> Recorded:
    """How the program in `path` failed where it was recorded, if the trace or the case around the file has it."""
    if not is_trace(path):
        return recorded_in_case(path)
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
