"""Run the pipeline on a case for a command, and print how it ended."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from repro_kit.cli.common.base_command import form_of
from repro_kit.cli.common.shared_options import make_options, make_ui, merged
from repro_kit.errors import Exit, ReproKitError, UsageError
from repro_kit.session.options import Options

if TYPE_CHECKING:
    from repro_kit.case.case import Case
    from repro_kit.pipeline.run import StageEnding
    from repro_kit.ui import Ui


_MOST_NOTES = 5


@dataclass(frozen=True)
class Job:
    """A case to work on, with its options and its user interface."""

    case: Case
    options: Options
    ui: Ui
    resumed: bool  # the case existed before


def case_or_subject(ctx: click.Context, words: Sequence[str]) -> Job:
    """The job that the command line asks for: an existing case, or a script, module or command."""
    from repro_kit.session.case_paths import is_case
    from repro_kit.session.script.watched_recording import is_watched

    values = merged(ctx)
    if form_of(ctx) == "script" and words and (is_case(Path(words[0])) or is_watched(Path(words[0]))):
        if len(words) > 1:
            words_before = shlex.join([*words[1:], words[0]])
            raise UsageError(f"A case takes no arguments; options go before it: {ctx.command_path} {words_before}")
        if not is_case(Path(words[0])):
            return _watched(ctx, Path(words[0]))
        return _moved_to_cpu(ctx, Path(words[0])) or existing_case(ctx, Path(words[0]))
    exported = _exported(ctx, values, Path(words[0])) if form_of(ctx) == "script" and len(words) == 1 else None
    return exported or _subject(ctx, values, form_of(ctx), words)


def _moved_to_cpu(ctx: click.Context, path: Path) -> Job | None:
    """The job on a new case on the CPU, of a program that the case at `path` recorded on another device.

    None where the case holds no such program, and where this machine has the device.
    """
    from repro_kit.case.case import Case
    from repro_kit.commands.intake.transplant import recorded_elsewhere
    from repro_kit.session.strangers.trust import agree

    case = Case.open(path)
    program = recorded_elsewhere(case, merged(ctx)["python"])
    if program is None:
        return None
    agree(case, make_ui(merged(ctx)))
    return program_case(ctx, program, name=f"{case.path.absolute().name.removesuffix('.repro')}-cpu")


def existing_case(ctx: click.Context, path: Path) -> Job:
    """The job on the case at `path`.

    Raises ReproKitError if there is no case, or its interpreter is gone.
    """
    from repro_kit.builds.interpreters import find_python
    from repro_kit.case.case import Case
    from repro_kit.case.lock import alone
    from repro_kit.session.case_paths import bundle_path
    from repro_kit.session.script.subject_check import check_interpreter
    from repro_kit.session.strangers.trust import agree

    values = merged(ctx)
    if ctx.params.get("fresh"):
        words = shlex.join(Case.open(path).file.subject.words)
        raise UsageError(f"--fresh takes the original command, not the case {path}: repro-kit collect --fresh {words}")
    Case.open(path)  # a path that is not a case gets no lock
    ctx.with_resource(alone(path))
    case = Case.open(path)
    subject = case.file.subject
    given = ctx.params.get("python")
    if given not in (None, subject.python) and find_python(given, Path.cwd(), os.environ) != subject.python:
        raise UsageError(
            f"{path} was made with {subject.python}. For another interpreter, give collect the original command, "
            "with another --output."
        )
    ui = make_ui(values)
    agree(case, ui)
    if subject.form != "command":
        check_interpreter(subject.python, Path(subject.cwd) if Path(subject.cwd).is_dir() else Path.cwd(), os.environ)
    output = ctx.params.get("output") or str(bundle_path(path))
    options = _options_of(ctx, case, values).with_(failure=case.file.failure_index, output=output)
    return Job(case, options, ui, resumed=True)


def _watched(ctx: click.Context, path: Path) -> Job:
    """The job on the output of `repro_kit.watch` at `path`, which becomes a case."""
    from repro_kit.case.lock import alone
    from repro_kit.commands.intake.watched_case import take_up
    from repro_kit.session.case_paths import bundle_path
    from repro_kit.session.kept_options import write_options

    values = merged(ctx)
    if values["output"] not in (None, str(path)):
        raise UsageError(f"{path} becomes the case itself; leave --output out.")
    options, ui = make_options(values), make_ui(values)
    ctx.with_resource(alone(path))
    case = take_up(path, values["python"], options.observe.failure, ui)
    write_options(case, options)
    return Job(case, options.with_(output=str(bundle_path(path))), ui, resumed=False)


def _options_of(ctx: click.Context, case: Case, values: dict[str, Any]) -> Options:
    """The options that the case was collected with, overridden by this command line."""
    from repro_kit.session.kept_options import read_options

    now, kept = make_options(values), read_options(case)
    if kept is None:
        return now
    given = [name for name in values if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if "timeout" in given:
        given.append("patient")
    return kept.with_(**{name: value for name, value in now.flat().items() if name in (*given, "jobs", "dry_run")})


def _exported(ctx: click.Context, values: dict[str, Any], path: Path) -> Job | None:
    """The job on the exported program that `path` names, compiled by a script in the case; None for any other file."""
    from repro_kit.commands.intake.exported_devices import digest_of, lacking_here, path_on_cpu, write_on_cpu
    from repro_kit.commands.intake.exported_file import SCRIPT_NAME, exported_file, was_made_for
    from repro_kit.files import write_atomic
    from repro_kit.session.case_paths import bundle_path, open_case, program_case_path
    from repro_kit.session.kept_options import write_options
    from repro_kit.session.script.subject_check import exported_subject
    from repro_kit.session.strangers.loaded_code import loaded_code
    from repro_kit.session.strangers.trust import agree, agree_to_load

    exported = exported_file(path)
    if exported is None:
        return None
    options, ui = make_options(values), make_ui(values)
    output, failure = options.bundle.output, options.observe.failure
    directory = program_case_path(path, output)
    script = directory.absolute() / SCRIPT_NAME
    loaded, digest = loaded_code(exported.path), digest_of(exported.path)
    if values["fresh"] or not was_made_for(digest, directory):
        agree_to_load(loaded, ui)
    devices = lacking_here(exported.path, values["python"])
    program = path_on_cpu(exported.path, directory.absolute()) if devices else exported.path
    subject = exported_subject(script, program, Path.cwd(), values["python"], os.environ)
    case, resumed = ctx.with_resource(open_case(directory, subject, failure, fresh=values["fresh"]))
    agree(case, ui)
    if case.file.moved_from != devices:
        write_on_cpu(exported.path, program, devices)
        case.update(moved_from=devices)
    case.update(exported=digest)
    write_atomic(script, exported.script(loaded, digest_of(program)).encode())
    write_options(case, options)
    return Job(case, options.with_(output=str(bundle_path(directory, output))), ui, resumed)


def _subject(ctx: click.Context, values: dict[str, Any], form: Any, words: Sequence[str]) -> Job:
    from repro_kit.model.torchrun import on_one_machine
    from repro_kit.session.case_paths import bundle_path, case_path, open_case
    from repro_kit.session.kept_options import write_options
    from repro_kit.session.script import users_logs
    from repro_kit.session.script.subject_check import recognise
    from repro_kit.session.strangers.trust import agree

    options, ui = make_options(values), make_ui(values)
    users_logs.check()
    here = on_one_machine(words) if form == "command" else None
    subject = recognise(form, words if here is None else here.argv, Path.cwd(), values["python"], os.environ)
    for word in _own_options(ctx, words[1:]) if form != "command" else ():
        ui.note(
            f"{word} stands after {words[0]}, so it is an argument of {words[0]}. "
            f"Options of repro-kit go before {words[0]}."
        )
    output, failure = options.bundle.output, options.observe.failure
    path = case_path(subject, output, failure)
    case, resumed = ctx.with_resource(open_case(path, subject, failure, fresh=values["fresh"]))
    agree(case, ui)
    if here is not None and case.file.subject_note != here.sentence:
        case.update(subject_note=here.sentence)
    write_options(case, options)
    return Job(case, options.with_(output=str(bundle_path(path, output))), ui, resumed)


def _own_options(ctx: click.Context, arguments: Sequence[str]) -> list[str]:
    """The script's arguments that begin with the long name of an option of this command."""
    names = {name for param in ctx.command.params for name in (*param.opts, *param.secondary_opts)}
    return [word for word in arguments if word.startswith("--") and word.partition("=")[0] in names]


def program_case(ctx: click.Context, path: Path, compile_id: str | None = None, name: str = "") -> Job | None:
    """The job on a case made of the program or trace at `path`; None if `path` holds no program.

    `name` names the case; empty: the file does.
    """
    from repro_kit.commands.intake.program_sources import is_trace, reader_of, recorded_failure

    reader = reader_of(path) if form_of(ctx) == "script" else None
    if reader is None:
        return None
    from repro_kit.commands.intake.program_file import adopt
    from repro_kit.session.case_paths import bundle_path, open_case, program_case_path
    from repro_kit.session.kept_options import write_options
    from repro_kit.session.script.subject_check import program_subject
    from repro_kit.session.stop import Stop
    from repro_kit.session.strangers.trust import agree, agree_to_trace

    programs = reader(path, compile_id)
    values = merged(ctx)
    options = make_options(values)
    output, failure = options.bundle.output, options.observe.failure
    case_directory = program_case_path(Path(name) if name else path, output)
    ui = make_ui(values)
    resumes = not values["fresh"] and (case_directory / "capture" / "program.py").is_file()
    if is_trace(path) and not resumes:
        agree_to_trace(path, ui)
    subject = program_subject(case_directory, Path.cwd(), values["python"], os.environ)
    case, resumed = ctx.with_resource(open_case(case_directory, subject, failure, fresh=values["fresh"]))
    agree(case, ui)
    write_options(case, options)
    job = Job(case, options.with_(output=str(bundle_path(case_directory, output))), ui, resumed)
    with job.ui.stage("read"):
        try:
            adopt(path, programs, case, job.options.capture, job.ui, partial(recorded_failure, path, compile_id))
        except Stop as stop:
            raise ReproKitError(stop.sentence, stop.exit_code) from stop
    return job


def work(
    ctx: click.Context,
    job: Job,
    names: Sequence[str],
    *,
    again: Sequence[str] = (),
    report: Callable[[Job, StageEnding], StageEnding] | None = None,
) -> None:
    """Run the stages, show the summary (or the JSON), and exit with the exit code.

    `report` may change how the command ends.
    """
    from repro_kit.cli.common.print_summary import show
    from repro_kit.pipeline.run import StageEnding, collect
    from repro_kit.pipeline.summary import case_summary

    case, ui = job.case, job.ui
    ui.most = 0 if report is not None else _MOST_NOTES
    if job.resumed and not again:
        ui.note(f"Resuming {case.path}: only missing results are computed (--fresh starts again).")
    started = time.monotonic()
    error = None
    try:
        ending = collect(case, job.options, ui, names, again=again)
        ending = report(job, ending) if report is not None else ending
    except KeyboardInterrupt:
        ending = StageEnding(Exit.INTERRUPTED, f"Interrupted. {case.path} is kept. To resume: {_again()}")
        error = "interrupted"
    except ReproKitError as problem:
        ending, error = StageEnding(problem.exit_code, str(problem)), str(problem)
    if error is None and ending.exit_code in (Exit.FAILED, Exit.USAGE):
        error = ending.sentence or _failed(case, names)
    result = case_summary(
        case, ending.exit_code, seconds=time.monotonic() - started, error=error, notes=[*ui.notes, ending.sentence]
    )
    show(ui, result, ending.sentence, names)
    ui.result(result.as_json())
    ctx.exit(result.exit)


def _failed(case: Case, names: Sequence[str]) -> str:
    """The name and the note of the first stage that failed."""
    failed = (record for record in map(case.stage, names) if record and record.status == "failed")
    return next((f"{record.name}: {record.note}" for record in failed), "a stage did not run")


def _again() -> str:
    """The command line that resumes: the same one, without `--fresh`."""
    return shlex.join(["repro-kit", *(word for word in sys.argv[1:] if word != "--fresh")])
