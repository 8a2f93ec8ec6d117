"""The pipeline: runs the stages in order on one case, and notes what became of each."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import importlib
import signal
import threading
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from repro_kit.case import STAGES, Case, StageRecord, StageStatus
from repro_kit.errors import Exit, ReproKitError
from repro_kit.model.results import BundleResult, Capture
from repro_kit.stages.options import Options
from repro_kit.stages.stop import Stop
from repro_kit.ui import Ui

__all__ = ["REGISTRY", "Ending", "Stage", "Stop", "collect", "disk_full", "interruptible", "prerequisites"]

_WORDS = {"failed": "failed", "skipped": "was skipped", "interrupted": "was interrupted", "stopped": "ended the work"}
_HASHED = 64 << 20  # bytes of a file of the command that are looked at for changes


class StageModule(Protocol):
    """What a stage's module has."""

    def run(self, case: Case, options: Options, ui: Ui) -> None:
        """Do the stage's work; raises Stop or ReproKitError."""


@dataclass(frozen=True)
class Stage:
    """One stage: where its code is, what it depends on, which options shape its result."""

    name: str
    module: str
    needs: tuple[str, ...] = ()  # stages without which it can do nothing
    uses: tuple[str, ...] = ()  # stages whose results it takes where there are any
    settings: tuple[str, ...] = ()  # fields of Options
    pointless: Callable[[Case], str] = lambda case: ""  # why there is nothing for it to do; empty: there is

    def load(self) -> StageModule:
        """Its module, imported."""
        module: StageModule = importlib.import_module(self.module)
        return module


@dataclass(frozen=True)
class Ending:
    """How the pipeline ended, and the sentence for the user where it ended early."""

    exit_code: Exit
    sentence: str = ""


def _no_program(case: Case) -> str:
    if case.has("capture/capture.json") and case.read("capture/capture.json", Capture).subject == "script":
        return "there is no program to reduce"
    return ""


REGISTRY: dict[str, Stage] = {
    stage.name: stage
    for stage in (
        Stage(
            "observe",
            "repro_kit.stages.observe",
            settings=("timeout", "logs", "debug_artifacts", "function", "check", "failure"),
        ),
        Stage("capture", "repro_kit.stages.capture", needs=("observe",)),
        Stage("ablate", "repro_kit.stages.ablate", needs=("observe",), uses=("capture",)),
        Stage(
            "minify",
            "repro_kit.stages.minify",
            needs=("observe", "capture"),
            settings=("budget", "deadline"),
            pointless=_no_program,
        ),
        Stage(
            "bundle",
            "repro_kit.stages.bundle",
            needs=("observe",),
            uses=("capture", "ablate", "minify"),
            settings=("include_values", "trace", "output"),
        ),
    )
}


def prerequisites(name: str) -> list[str]:
    """The stages that stage `name` cannot do without, in order."""
    needed = {name}
    for stage in reversed(REGISTRY.values()):
        if stage.name in needed:
            needed.update(stage.needs)
    return [known for known in REGISTRY if known in needed and known != name]


def collect(
    case: Case, options: Options, ui: Ui, names: Sequence[str] = STAGES, *, again: Collection[str] = ()
) -> Ending:
    """Run stages `names` on `case`: those of `again` in any case, the others where their result is missing or stale.

    A stage that fails is noted in the case, and the rest does what still can be done. Raises KeyboardInterrupt when
    interrupted (noted in the case before); ReproKitError when the disk is full, when one of `again` cannot run, and
    when another process works on the case.
    """
    with interruptible(), _alone(case.path):
        with suppress(OSError):
            (case.path / "error.txt").unlink(missing_ok=True)
        for name in names:
            stage = REGISTRY[name]
            settings = _settings(stage, case, options)
            if name not in again and _is_current(case, name, settings, ui):
                continue
            reason = _why_not(case, stage)
            if reason and name in again:
                raise ReproKitError(f"Cannot {name} {case.path}: {reason}.", Exit.FAILED)
            if reason:
                ui.past(name, f"skipped: {reason}")
                _forget(case, name, StageRecord(name, "skipped", reason, settings=settings))
                continue
            try:
                record = _run(case, stage, options, ui, settings)
            except Stop as stop:
                return Ending(stop.exit_code, stop.sentence)
            if record.status == "failed" and not stage.needs:
                return Ending(Exit.FAILED, record.note)
    return Ending(_exit_code(case, names))


def _is_current(case: Case, name: str, settings: str, ui: Ui) -> bool:
    record = case.stage(name)
    if record is None or record.status != "done":
        return False
    if record.settings != settings:
        ui.detail(f"{name} runs again: {settings or 'no settings'} now, {record.settings or 'none'} then")
        return False
    ui.past(name, f"done before: {record.note}" if record.note else "done before")
    return True


def _why_not(case: Case, stage: Stage) -> str:
    for need in stage.needs:
        record = case.stage(need)
        if record is None:
            return f"it needs {need}, which has not run"
        if record.status != "done":
            return f"it needs {need}, which {_WORDS[record.status]}"
    return stage.pointless(case)


def _run(case: Case, stage: Stage, options: Options, ui: Ui, settings: str) -> StageRecord:
    with ui.stage(stage.name) as line:
        status: StageStatus = "done"
        ending: BaseException | None = None
        try:
            stage.load().run(case, options, ui)
        except Stop as stop:
            status, ending = "stopped", stop
            ui.done(stop.sentence.partition("\n")[0])
        except ReproKitError as error:
            status = "failed"
            ui.failed(str(error))
        except KeyboardInterrupt as interrupt:
            status, ending = "interrupted", interrupt
            ui.failed("interrupted")
        except Exception as error:
            status = "failed"
            ending = disk_full(error, case.path)
            ui.failed(str(ending) if ending else _unexpected(case, stage.name, error))
        note = line.text if line.ended else ""
        record = StageRecord(stage.name, status, note, round(line.seconds, 1), settings)
        with _recording(case, ending):
            _forget(case, stage.name, record)
    if ending is not None:
        raise ending
    return record


@contextmanager
def _recording(case: Case, ending: BaseException | None) -> Iterator[None]:
    """Write the case's record undisturbed by a second Ctrl-C; a full disk leaves the record as it was."""
    try:
        with _deaf():
            yield
    except OSError as error:
        full = disk_full(error, case.path)
        if ending is None:
            raise full or ReproKitError(f"Cannot write the case {case.path}: {error.strerror}.", Exit.FAILED) from error


def _forget(case: Case, name: str, record: StageRecord) -> None:
    """Record the stage, and drop what is known of the stages that build on it: it is stale now."""
    stale = {name}
    for stage in REGISTRY.values():
        if stale & {*stage.needs, *stage.uses}:
            stale.add(stage.name)
    case.update(stages=(*(known for known in case.file.stages if known.name not in stale), record))


def _settings(stage: Stage, case: Case, options: Options) -> str:
    """The options that shape the stage's result where not at their default, and the state of the command's files."""
    default = Options()
    changed = [
        f"{name}={getattr(options, name)}"
        for name in stage.settings
        if getattr(options, name) != getattr(default, name)
    ]
    if not stage.needs:
        changed += _files(case)
    return " ".join(changed)


def _files(case: Case) -> list[str]:
    """The files named on the command line, each with a digest: an edited script is another failure."""
    found = []
    for word in case.file.subject.argv:
        path = Path(case.file.subject.cwd) / word
        with suppress(OSError, ValueError):
            if path.is_file() and path.stat().st_size <= _HASHED:
                found.append(f"{path.name}:{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}")
    return found


def _exit_code(case: Case, names: Sequence[str]) -> Exit:
    records = [case.stage(name) for name in names]
    if "bundle" in names:
        bundled = case.stage("bundle")
        if bundled is None or bundled.status != "done":
            return Exit.FAILED
        return Exit.OK if case.read("bundle.json", BundleResult).verified else Exit.UNVERIFIED
    return Exit.FAILED if any(record and record.status == "failed" for record in records) else Exit.OK


def _unexpected(case: Case, name: str, error: Exception) -> str:
    path = case.path / "error.txt"
    summary = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"stage {name}\n{''.join(traceback.format_exception(error))}\n")
    except OSError:
        return f"unexpected error ({summary})"
    return f"unexpected error ({summary}); its traceback is in {path}"


def disk_full(error: BaseException, place: Path) -> ReproKitError | None:
    """The sentence for a full disk (or quota), when `error` is that."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ReproKitError(
            f"The disk is full at {error.filename or place}; free some space and run the same command again to go on.",
            Exit.FAILED,
        )
    return None


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Hold the case's lock: two processes that write one case would mix their results."""
    with (place / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ReproKitError(f"Another repro-kit is at work on {place}; wait for it, or use --output.") from None
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP):  # a file system without locks
                raise
        yield


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the work as Ctrl-C does: children killed, the case valid."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with _handling({signal.SIGTERM: interrupt, signal.SIGHUP: interrupt}):
        yield


@contextmanager
def _deaf() -> Iterator[None]:
    with _handling(dict.fromkeys((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), signal.SIG_IGN)):
        yield


@contextmanager
def _handling(handlers: Mapping[signal.Signals, Any]) -> Iterator[None]:
    """Install `handlers` for a while; signals that are ignored (`nohup`) stay so, and other threads install none."""
    previous: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number, handler in handlers.items():
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                previous[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
