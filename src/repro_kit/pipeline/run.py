"""The pipeline: the stages and what they need, run in order on one case. It records how each ended."""

from __future__ import annotations

import glob
import importlib
import tempfile
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from repro_kit.case.case import STAGES, Case, StageRecord, StageStatus, command_files, locked
from repro_kit.case.stage_results import BUNDLE
from repro_kit.errors import Exit, OutputLost, ReproKitError, StageError, Stop
from repro_kit.failure.kinds import Kind
from repro_kit.files import remove_unfinished
from repro_kit.options.stages import Options, StageOptions
from repro_kit.runner.places import remove_abandoned, temporary
from repro_kit.session.case_paths import bundle_path
from repro_kit.session.oracles import begin_oracle, shared_oracles
from repro_kit.session.system import disk_full, interruptible, removed, sentence_of, uninterrupted
from repro_kit.subject.subject_check import fails_in_eager, is_program_alone
from repro_kit.ui import Ui
from repro_kit.verdicts import by_rounding
from repro_kit.verdicts.not_the_compiler import not_on_cpu
from repro_kit.verdicts.settle import by_runs
from repro_kit.verdicts.symptoms import requested

#: Options that select the cells of the ablation.
MATRIX = ("preset", "backends", "axes", "cross", "stop_early", "repeat", "on", "narrow")


class StageModule(Protocol):
    """The interface of the module of a stage."""

    def run(self, case: Case, options: Any, ui: Ui) -> None:
        """Run the stage with its part of the options. Raises Stop or ReproKitError."""


@dataclass(frozen=True)
class Stage:
    """One stage: its module, the stages it depends on, and the options that shape its result."""

    name: str
    module: str
    needs: tuple[str, ...] = ()  # stages that must have run
    uses: tuple[str, ...] = ()  # stages whose results are used if there are any
    settings: tuple[str, ...] = ()  # fields of the stage's own options
    skippable: tuple[str, ...] = ()  # needed stages that may have had nothing to do
    pointless: Callable[[Case], str] = lambda case: ""  # why the stage has nothing to do; empty if it has work

    def load(self) -> StageModule:
        """Import the module of the stage."""
        module: StageModule = importlib.import_module(self.module)
        return module


def _of_the_script(case: Case) -> str:
    if fails_in_eager(case):
        return "the failure needs no compiled graph"
    signature = case.file.signature
    if signature is None or not signature.kind.policy.measured:
        return ""
    if signature.kind is Kind.ORACLE:
        return "the oracle judges runs of the script, not a graph of it"
    return f"{signature.kind} is measured on the script, not on a graph of it"


REGISTRY: dict[str, Stage] = {
    stage.name: stage
    for stage in (
        Stage(
            "observe",
            "repro_kit.stages.observe.stage",
            settings=(
                *("timeout", "patient", "logs", "debug_artifacts", "function"),
                *("check", "oracle", "oracle_matches", "failure", "treat_rounding_as"),
            ),
        ),
        Stage(
            "capture",
            "repro_kit.stages.capture.stage",
            needs=("observe",),
            settings=("treat_rounding_as",),
            pointless=_of_the_script,
        ),
        Stage(
            "minify",
            "repro_kit.stages.minify.stage",
            needs=("observe", "capture"),
            settings=("budget", "deadline", "border", "source"),
            skippable=("capture",),
        ),
        Stage(
            "ablate",
            "repro_kit.stages.ablate.stage",
            needs=("observe",),
            uses=("capture", "minify"),
            settings=MATRIX,
        ),
        Stage(
            "bundle",
            "repro_kit.stages.bundle.stage",
            needs=("observe",),
            uses=("capture", "minify", "ablate"),
            settings=("include_values", "include_source", "trace", "output"),
        ),
    )
}


def prerequisites(name: str) -> list[str]:
    """The stages that must run before stage `name`, in order."""
    needed = {name}
    for stage in reversed(REGISTRY.values()):
        if stage.name in needed:
            needed.update(stage.needs)
    return [stage_name for stage_name in REGISTRY if stage_name in needed and stage_name != name]


def settings_of(stage: Stage, case: Case, options: StageOptions) -> str:
    """The options of the stage that differ from their defaults, and the state of the files of the user's command."""
    if not stage.needs and (case.has("watched.json") or is_program_alone(case)):
        return ""  # a run that another process recorded cannot be repeated, and a program from a file was not observed
    default = type(options)()
    changed = [
        f"{name}={getattr(options, name)}"
        for name in stage.settings
        if getattr(options, name) != getattr(default, name)
    ]
    if not stage.needs:
        changed += command_files(case)
    return " ".join(changed)


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
    with interruptible(), locked(case.path), shared_oracles():
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
