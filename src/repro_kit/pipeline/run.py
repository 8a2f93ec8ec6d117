"""The pipeline: runs the stages in order on one case, and records how each ended."""

from __future__ import annotations

import glob
import tempfile
import traceback
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from repro_kit.case.case import STAGES, Case, StageRecord, StageStatus
from repro_kit.case.handles import BUNDLE
from repro_kit.case.lock import alone
from repro_kit.errors import Exit, OutputLost, ReproKitError, StageError
from repro_kit.files import remove_unfinished
from repro_kit.pipeline.registry import REGISTRY, Stage, settings_of
from repro_kit.runner.places import temporary
from repro_kit.runner.scratch import remove_abandoned
from repro_kit.session.case_paths import bundle_path
from repro_kit.session.interrupts import interruptible, uninterrupted
from repro_kit.session.options import Options
from repro_kit.session.oracles import begin_oracle, shared_oracles
from repro_kit.session.os_errors import disk_full, removed, sentence_of
from repro_kit.session.script.subject_check import fails_in_eager
from repro_kit.session.stop import Stop
from repro_kit.session.verdicts import by_rounding
from repro_kit.session.verdicts.moved_program import not_on_cpu
from repro_kit.session.verdicts.settle import by_runs
from repro_kit.session.verdicts.symptoms import requested
from repro_kit.ui import Ui

#: The stages that run again if only the final check shows that the failure is flaky.
_CELLS_AND_CLAIMS = ("ablate", "bundle")
_MOST_REPEATS = 20  # runs of each cell: a rarer failure asks for hours, which the user decides on
_WORDS = {"failed": "failed", "skipped": "was skipped", "interrupted": "was interrupted", "stopped": "ended the work"}


@dataclass(frozen=True)
class StageEnding:
    """How the pipeline ended, with a sentence for the user if it ended early."""

    exit_code: Exit
    sentence: str = ""


def collect(
    case: Case, options: Options, ui: Ui, names: Sequence[str] = STAGES, *, again: Collection[str] = ()
) -> StageEnding:
    """Run the stages `names` on `case`.

    The stages in `again` always run; the others run if their result is missing or stale. The case records a stage that
    fails, and the later stages do what they still can. Raises KeyboardInterrupt when interrupted, after recording this
    in the case; ReproKitError when the disk is full, when a stage in `again` cannot run, and when another process works
    on the case.
    """
    with interruptible(), alone(case.path), shared_oracles():
        _clear_up(case, options)
        ending = _through(case, options, options, ui, names, again)
        repeats = 0 if ending else _runs_that_cells_lack(case, names)
        if repeats:
            ui.note(f"The failure is flaky: each way to compile it is tried again, up to {repeats} times.")
            often = replace(options, ablate=replace(options.ablate, repeat=repeats))
            ending = _through(case, often, options, ui, _CELLS_AND_CLAIMS, _CELLS_AND_CLAIMS)
    return ending or StageEnding(_exit_code(case, names))


def _through(
    case: Case, options: Options, given: Options, ui: Ui, names: Sequence[str], again: Collection[str]
) -> StageEnding | None:
    """Run the stages `names`; None if no stage ended the work. The case records the settings `given` by the user."""
    for name in names:
        stage = REGISTRY[name]
        settings = settings_of(stage, case, given.of(name))
        if name not in again and _is_current(case, name, settings, ui):
            continue
        reason = _why_not(case, stage)
        if reason and name in again:
            raise StageError(f"Cannot {name} {case.path}: {reason}.")
        if reason:
            ui.past(name, f"skipped: {reason}")
            _record(case, StageRecord(name, "skipped", reason, settings=settings))
            continue
        if name == STAGES[0] and "capture" in names and _may_run_beside(case, options):
            begin_oracle(case, options.capture.jobs)
        try:
            record = _run(case, stage, options, ui, settings, settle=name == STAGES[0] and "capture" not in names)
        except Stop as stop:
            return StageEnding(stop.exit_code, stop.sentence)
        if record.status == "failed" and not stage.needs:
            return StageEnding(Exit.FAILED, record.note)
    return None


def _runs_that_cells_lack(case: Case, names: Sequence[str]) -> int:
    """How often each cell must run, if the final check found the failure too flaky for the cells; 0 otherwise."""
    records = [case.stage(name) for name in _CELLS_AND_CLAIMS]
    is_done = all(record is not None and record.status == "done" for record in records)
    if not is_done or not {*_CELLS_AND_CLAIMS} <= {*names}:
        return 0
    lacking = case.load(BUNDLE).lacking
    return lacking if lacking <= _MOST_REPEATS else 0


def _may_run_beside(case: Case, options: Options) -> bool:
    """Whether other work beside the observed run changes nothing. Only the run of a command shows its interpreter."""
    return requested(options.observe) is None and case.file.subject.form != "command"


def _clear_up(case: Case, options: Options) -> None:
    """Remove the files that killed runs left, in the case and elsewhere, and the error text of an earlier run."""
    with suppress(OSError):
        archive = bundle_path(case.path, options.bundle.output)
        remove_unfinished(case.path.rglob(".*"))
        remove_unfinished(archive.parent.glob(f".{glob.escape(archive.name)}.*"))
        (case.path / "error.txt").unlink(missing_ok=True)
    for directory in {temporary(), Path(tempfile.gettempdir())}:
        remove_abandoned(directory)


def _is_current(case: Case, name: str, settings: str, ui: Ui) -> bool:
    record = case.stage(name)
    if record is None or record.status != "done":
        return False
    if not case.is_current(name):
        ui.detail(f"{name} runs again: the earlier result is about another failure")
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
            return f"this stage needs {need}, which has not run"
        if record.status != "done" and not (record.status == "skipped" and need in stage.skippable):
            return f"this stage needs {need}, which {_WORDS[record.status]}"
    return stage.pointless(case)


def _run(case: Case, stage: Stage, options: Options, ui: Ui, settings: str, *, settle: bool = False) -> StageRecord:
    """Run one stage and record how it ended. `settle`: no later stage runs that could settle whose failure it is."""
    is_dry = stage.name == "bundle" and options.bundle.dry_run  # changes nothing, so the earlier record stays true
    with ui.stage(stage.name) as line:
        status: StageStatus = "done"
        ending: BaseException | None = None
        try:
            if not is_dry:
                _record(case, StageRecord(stage.name, "interrupted", settings=settings))  # overwritten when it ends
            stage.load().run(case, options.of(stage.name), ui)
            if settle:
                by_runs(case, options.observe.timeout, ui)
                by_rounding.conclude(case, ui, options.observe.treat_rounding_as)
        except Stop as ended:
            stop = not_on_cpu(case, ended) if case.file.moved_from else ended
            status, ending = "stopped", stop
            if stop.exit_code is Exit.FAILED:
                ui.failed("")  # the command says it as its error
            else:
                ui.done(stop.sentence.partition("\n")[0])
        except ReproKitError as error:
            status, ending = "failed", None if stage.needs else error  # no stage can go on without the first one
            ui.failed("" if ending else str(error))  # the command itself says what ends it
        except (KeyboardInterrupt, OutputLost) as interrupt:
            status, ending = "interrupted", interrupt
            ui.failed("interrupted")
        except Exception as error:
            status = "failed"
            ending = disk_full(error, case.path) or removed(error, case.path)
            understood = sentence_of(error, case.path)
            ui.failed("" if ending else str(understood) if understood else _unexpected(case, stage.name, error))
        note = _said(ending) or (line.text if line.ended else "")
        about = case.about(stage.name) if status == "done" else ""
        record = StageRecord(stage.name, status, note, round(line.seconds, 1), settings, about)
        if case.is_there and not (is_dry and status == "stopped"):
            with _undisturbed(case, ending):
                _record(case, record)
    if ending is not None:
        raise ending
    return record


def _said(ending: BaseException | None) -> str:
    """What the command says of an error or a stop that ends the pipeline."""
    if isinstance(ending, Stop):
        return ending.sentence.partition("\n")[0]
    return str(ending) if isinstance(ending, ReproKitError) else ""


@contextmanager
def _undisturbed(case: Case, ending: BaseException | None) -> Iterator[None]:
    """Write the record of the case, safe from a second Ctrl-C. A full disk leaves the old record in place."""
    try:
        with uninterrupted():
            yield
    except OSError as error:
        full = disk_full(error, case.path)
        if ending is None:
            raise full or StageError(f"Cannot write the case {case.path}: {error.strerror}.") from error


def _record(case: Case, record: StageRecord) -> None:
    """Record the stage, and drop the records of the stages that build on it, which are stale now."""
    if record.status == "skipped" and record == case.stage(record.name):
        return  # nothing has changed since the last run
    stale = {record.name}
    for stage in REGISTRY.values():
        if stale & {*stage.needs, *stage.uses}:
            stale.add(stage.name)
    case.update(stages=(*(kept_record for kept_record in case.file.stages if kept_record.name not in stale), record))


def _exit_code(case: Case, names: Sequence[str]) -> Exit:
    if fails_in_eager(case):
        return Exit.USER_BUG
    records = [case.stage(name) for name in names]
    if "bundle" in names:
        bundled = case.stage("bundle")
        if bundled is None or bundled.status != "done":
            return Exit.FAILED
        return Exit.OK if case.load(BUNDLE).verified else Exit.UNVERIFIED
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
