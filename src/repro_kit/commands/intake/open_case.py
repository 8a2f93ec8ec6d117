"""Open the case that a command line asks for: an existing one, or one made of a script, a command or a file."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from repro_kit.builds.interpreters import find_python
from repro_kit.bundle.privacy.vocabulary import allowed_variables
from repro_kit.case.case import Case, StageRecord, Subject, locked
from repro_kit.case.stage_results import ENVIRONMENT, OBSERVATION, Observation
from repro_kit.commands.intake.exported_file import SCRIPT_NAME, ExportedFile, exported_file, was_made_for
from repro_kit.commands.intake.issue import Issue, is_issue, read_issue, shown_blocks
from repro_kit.commands.intake.issue_answer import Ran, Told
from repro_kit.commands.intake.issue_files import Block, free_path, left_out
from repro_kit.commands.intake.moved_to_cpu import (
    digest_of,
    lacking_here,
    path_on_cpu,
    recorded_elsewhere,
    write_on_cpu,
)
from repro_kit.commands.intake.programs import case_from_program, is_trace, reader_of, recorded_failure
from repro_kit.errors import ReproKitError, Stop, UsageError
from repro_kit.files import check_tree, read_plain, write_atomic
from repro_kit.graph import Program
from repro_kit.options.stages import Options
from repro_kit.ownership import is_marked
from repro_kit.probe.repro_probe.protocol.findings import WATCHED_DIRECTORY
from repro_kit.repro_run.trust import agree, agree_to_load, agree_to_trace, loaded_code
from repro_kit.runner.read_findings import read_findings
from repro_kit.runner.supervised import Run
from repro_kit.runner.torchrun import on_one_machine
from repro_kit.session.case_paths import (
    bundle_path,
    case_path,
    is_case,
    locked_case,
    program_case_path,
    read_options,
    write_options,
)
from repro_kit.subject import users_environment
from repro_kit.subject.script_run import write_artifacts
from repro_kit.subject.subject_check import check_interpreter, exported_subject, program_subject, recognise
from repro_kit.subject.users_environment import environment
from repro_kit.subject.watched_recording import Watched, is_watched, read_watched, watched_text
from repro_kit.trace import summarise
from repro_kit.ui import Ui
from repro_kit.verdicts import observed_failures
from repro_kit.verdicts.blame import as_wrong_result

_LARGEST_TEXT = 4 << 20  # bytes
_FILES = "text"  # in a case: the files of a program from the text of an issue


def case_from_watch(path: Path, python: str | None, failure: int, ui: Ui) -> Case:
    """Return the case at `path` as observed, with the failure, trace and environment that `repro_kit.watch` stored.

    `python` is the interpreter to continue with; None: the interpreter in which the failure happened. `failure` is
    the number of the failure that the case is about. Raises ReproKitError when there is no such failure or interpreter.
    """
    check_tree(path)
    watched = read_watched(path)
    if not is_marked(path, watched_text(path)) and not ui.confirm(
        f"{path} was not made by you on this machine. Run the programs in it with {python or watched.python}?"
    ):
        raise UsageError(
            f"{path} was not made by you on this machine, and its programs would run with {python or watched.python}; "
            "look at the case, and give --yes if you trust it."
        )
    subject = program_subject(path, Path.cwd(), python or watched.python, os.environ)
    case = Case.create(path, subject, watched.created)
    with ui.stage("watched"):
        shutil.copytree(path / WATCHED_DIRECTORY / "trace", path / "observe" / "trace", dirs_exist_ok=True)
        findings = read_findings(path / WATCHED_DIRECTORY)
        summary = summarise(path / "observe" / "trace")
        ended = Run(1, None, timed_out=False, seconds=0.0, peak_memory=0)
        observed = [as_wrong_result(watched) for watched in observed_failures.found_in(path, ended, findings, summary)]
        index = observed_failures.index_of(failure, observed)
        env = environment(subject.python)
        if env.torch != watched.torch:
            ui.warn(f"The failure was seen with torch {watched.torch}; {subject.python} has torch {env.torch} now.")
        case.store(
            ENVIRONMENT,
            replace(
                env,
                config=findings.config,
                threads=findings.threads or env.threads,
                variables=allowed_variables(watched.variables),
            ),
        )
        observation = Observation(
            argv=watched.command,
            exit_status=1,
            signal=None,
            timed_out=False,
            seconds=0.0,
            peak_memory=0,
            python=watched.python,
            torch=watched.torch,
            failures=tuple(observed),
            artifacts=write_artifacts(case, summary),
            graphs=watched.graphs,
            warnings=tuple(_warnings(watched)),
        )
        case.store(OBSERVATION, observation)
        chosen = observed[index]
        case.update(signature=chosen.signature, failure_index=index)
        note = f"{chosen.failure.kind}: {chosen.signature.summary()}"
        case.record(StageRecord("observe", "done", note))
        ui.done(note)
    return case


def _warnings(watched: Watched) -> list[str]:
    return [f"The first {watched.dropped} of {watched.graphs} graphs were forgotten."] if watched.dropped else []


@dataclass(frozen=True)
class Asked:
    """A command line: the subject, and the options before it."""

    form: Any  # of the subject: "script", "module", "command"
    words: tuple[str, ...]
    options: Options
    given: Collection[str]  # the options that the command line gives; the others are defaults, or from files
    python: str | None
    fresh: bool
    command: str  # "repro-kit ablate"
    flags: Collection[str]  # the names of all options of the command
    programs: bool = False  # a program or a trace may be the subject
    compile_id: str | None = None  # the graph of a trace
    which: int | None = None  # the number of the program in a file, or in the text of an issue

    @property
    def output(self) -> str | None:
        """The path that the user gives for the case."""
        return self.options.bundle.output


@dataclass(frozen=True)
class Job:
    """A case to work on, with its options and its user interface."""

    case: Case
    options: Options
    ui: Ui
    resumed: bool  # the case existed before
    told: Told | None = None  # what the text of an issue says of the program


@contextmanager
def open_case(asked: Asked, ui: Ui) -> Iterator[Job]:
    """The case that `asked` means, locked. A new one has its options, and what a file holds in place of a run.

    Raises ReproKitError for a subject that cannot be used, and for a user who does not trust it.
    """
    first = Path(asked.words[0]) if asked.form == "script" and asked.words else None
    alone_in_line = first if len(asked.words) == 1 else None
    if asked.programs and first and is_issue(first):
        with _of_issue(asked, first, ui) as job:
            yield job
        return
    reader = reader_of(alone_in_line, asked.which) if asked.programs and alone_in_line else None
    if first and alone_in_line and reader:
        opened = _of_program(asked, first, reader, ui)
    elif first and (is_case(first) or is_watched(first)):
        if not alone_in_line:
            words = shlex.join([*asked.words[1:], asked.words[0]])
            raise UsageError(f"A case takes no arguments; options go before it: {asked.command} {words}")
        opened = _of_case(asked, first, ui) if is_case(first) else _of_watched(asked, first, ui)
    elif first and alone_in_line and (exported := exported_file(first)):
        opened = _of_exported(asked, first, exported, ui)
    else:
        opened = _of_command(asked, ui)
    with opened as job:
        yield job


@contextmanager
def _case_for(asked: Asked, path: Path, subject: Subject, ui: Ui) -> Iterator[Job]:
    """The case at `path` about `subject`: a new one, or the one that this command line began before."""
    with locked_case(path, subject, asked.options.observe.failure, fresh=asked.fresh) as (case, resumed):
        agree(case, ui)
        write_options(case, asked.options)
        yield Job(case, asked.options.with_(output=str(bundle_path(path, asked.output))), ui, resumed)


@contextmanager
def _of_command(asked: Asked, ui: Ui) -> Iterator[Job]:
    """Of a script, a module or a command, which is not run yet."""
    users_environment.check_users_logs()
    words = asked.words
    here = on_one_machine(words) if asked.form == "command" else None
    subject = recognise(asked.form, words if here is None else here.argv, Path.cwd(), asked.python, os.environ)
    for word in _own_flags(asked) if asked.form != "command" else ():
        ui.note(
            f"{word} stands after {words[0]}, so it is an argument of {words[0]}. "
            f"Options of repro-kit go before {words[0]}."
        )
    path = case_path(subject, asked.output, asked.options.observe.failure)
    with _case_for(asked, path, subject, ui) as job:
        if here is not None and job.case.file.subject_note != here.sentence:
            job.case.update(subject_note=here.sentence)
        yield job


def _own_flags(asked: Asked) -> list[str]:
    """The arguments of the program that look like options of repro-kit's."""
    return [word for word in asked.words[1:] if word.startswith("--") and word.partition("=")[0] in asked.flags]


@contextmanager
def _of_exported(asked: Asked, path: Path, exported: ExportedFile, ui: Ui) -> Iterator[Job]:
    """Of an exported program, which a script in the case compiles."""
    directory = program_case_path(path, asked.output)
    script = directory.absolute() / SCRIPT_NAME
    loaded, digest = loaded_code(exported.path), digest_of(exported.path)
    if asked.fresh or not was_made_for(digest, directory):
        agree_to_load(loaded, ui)
    devices = lacking_here(exported.path, asked.python)
    program = path_on_cpu(exported.path, directory.absolute()) if devices else exported.path
    subject = exported_subject(script, program, Path.cwd(), asked.python, os.environ)
    with _case_for(asked, directory, subject, ui) as job:
        if job.case.file.moved_from != devices:
            write_on_cpu(exported.path, program, devices)
            job.case.update(moved_from=devices)
        job.case.update(exported=digest)
        write_atomic(script, exported.script(loaded, digest_of(program)).encode())
        yield job


@contextmanager
def _of_program(
    asked: Asked, path: Path, reader: Callable[[Path, str | None], list[Program]], ui: Ui, name: str = ""
) -> Iterator[Job]:
    """Of a program or a trace. `name` names the case; empty: the file does."""
    programs = reader(path, asked.compile_id)
    directory = program_case_path(Path(name) if name else path, asked.output)
    resumes = not asked.fresh and (directory / "capture" / "program.py").is_file()
    if is_trace(path) and not resumes:
        agree_to_trace(path, ui)
    subject = program_subject(directory, Path.cwd(), asked.python, os.environ)
    with _case_for(asked, directory, subject, ui) as job:
        recorded = partial(recorded_failure, path, asked.compile_id, asked.which)
        try:
            with ui.stage("read"):
                case_from_program(path, programs, job.case, job.options.capture, ui, recorded, asked.which)
        except Stop as stop:
            raise ReproKitError(stop.sentence, stop.exit_code) from stop
        yield job


def _issue_text(path: Path) -> str:
    """The text of the file `path`, or of standard input."""
    if str(path) != "-":
        return read_plain(path, _LARGEST_TEXT).decode("utf-8", "replace")
    if sys.stdin is None:
        raise UsageError("There is no standard input to read; give the text as a file (issue.md).")
    return sys.stdin.buffer.read(_LARGEST_TEXT).decode("utf-8", "replace")


@contextmanager
def _of_issue(asked: Asked, path: Path, ui: Ui) -> Iterator[Job]:
    """Of the program in the text of an issue, which is shown, and written to files after a yes."""
    name = "the text" if str(path) == "-" else str(path)
    issue = read_issue(_issue_text(path))
    block = issue.program(asked.which, name)
    stem = "issue" if str(path) == "-" else path.stem
    if block.parts:
        script = program_case_path(Path(stem), asked.output) / _FILES / next(iter(block.files))
        what, where = f"these {len(block.files)} files", f"{script.parent}, and run {script.name} with your rights?"
    else:
        script = free_path(block.text, Path.cwd(), stem)
        what, where = f"this {block.kind}", f"{script.name}, and run it with your rights?"
    code = block.shown if block.parts else f"{script.name}:\n{block.text}"
    ui.print("\n".join([f"{name} holds", *shown_blocks(issue, block), "", code.rstrip()]))
    if not ui.confirm(f"Write {what} to {where}"):
        if "--yes" in _own_flags(asked):
            raise UsageError(f"Nothing was run: --yes is an argument of the program there; it goes before {path}.")
        raise UsageError(f"Nothing was run: {name} holds code; look at it, and give --yes if you trust it.")
    options = asked.options
    if block.kind == "script" and not issue.reported.failures and not {"check", "oracle"} & set(asked.given):
        options = options.with_(check="accuracy")
        ui.note("The text shows no exception, so results are compared with eager's (--check accuracy).")
    told = _told(asked, issue, block)
    inner = replace(asked, words=(str(script), *asked.words[1:]), which=None, options=options)
    with ExitStack() as stack:
        try:
            if block.parts:
                job = stack.enter_context(_of_files(inner, script, block.files, ui))
            else:
                write_atomic(script, block.text.encode())
                job = stack.enter_context(open_case(inner, ui))
        except ReproKitError as error:
            answer = told.answer(Ran(error.exit_code, str(error)))
            more = "" if str(error) in answer.sentence else f" {error}"
            raise ReproKitError(f"{answer.sentence}{more}", error.exit_code, {"issue": asdict(answer)}) from error
        yield replace(job, told=told)


def _told(asked: Asked, issue: Issue, block: Block) -> Told:
    """What the text says of the program that is run."""
    run_with = () if asked.words[1:] else issue.reported.run_with
    return Told(
        replace(issue.reported, run_with=run_with),
        next(filter(None, map(left_out, block.files.values())), ""),
        block.kind == "artifact",
        issue.said,
        tuple(path.removesuffix(".py").replace("/", ".") for path, _ in block.parts),
    )


@contextmanager
def _of_files(asked: Asked, script: Path, files: Mapping[str, str], ui: Ui) -> Iterator[Job]:
    """Of a program in several files, which stand in the directory of `script` within the case."""
    case, directory = script.parent.parent, script.parent
    for path, text in files.items():
        there = directory / path
        if not asked.fresh and is_case(case) and not (there.is_file() and there.read_bytes() == text.encode()):
            raise UsageError(
                f"{case} is about other files than the text now has; start anew with --fresh, or choose another place "
                "with --output."
            )
    interpreter = find_python(asked.python, Path.cwd(), os.environ)
    check_interpreter(interpreter, Path.cwd(), os.environ)
    subject = Subject("script", (str(script.absolute()), *asked.words[1:]), str(Path.cwd()), interpreter)
    with _case_for(asked, case, subject, ui) as job:
        for path, text in files.items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            write_atomic(directory / path, text.encode())
        check_interpreter(interpreter, Path.cwd(), os.environ, script=script)
        yield job


@contextmanager
def _of_watched(asked: Asked, path: Path, ui: Ui) -> Iterator[Job]:
    """Of the output of `repro_kit.watch`, which becomes a case."""
    if asked.output not in (None, str(path)):
        raise UsageError(f"{path} becomes the case itself; leave --output out.")
    with locked(path):
        case = case_from_watch(path, asked.python, asked.options.observe.failure, ui)
        write_options(case, asked.options)
        yield Job(case, asked.options.with_(output=str(bundle_path(path))), ui, resumed=False)


@contextmanager
def _of_case(asked: Asked, path: Path, ui: Ui) -> Iterator[Job]:
    """An existing case; a new one on the CPU if its program needs a device that this machine lacks."""
    case = Case.open(path)
    program = recorded_elsewhere(case, asked.python)
    reader = reader_of(program) if program else None
    if program and reader:
        agree(case, ui)
        name = f"{case.path.absolute().name.removesuffix('.repro')}-cpu"
        with _of_program(asked, program, reader, ui, name) as job:
            yield job
        return
    if asked.fresh:
        words = shlex.join(case.file.subject.words)
        raise UsageError(f"--fresh takes the original command, not the case {path}: repro-kit collect --fresh {words}")
    with locked(path):
        case = Case.open(path)  # as it is under the lock
        subject = case.file.subject
        _check_python(asked, path, subject)
        agree(case, ui)
        if subject.form != "command":
            there = Path(subject.cwd)
            check_interpreter(subject.python, there if there.is_dir() else Path.cwd(), os.environ)
        output = (asked.output if "output" in asked.given else None) or str(bundle_path(path))
        options = _continued(asked, case).with_(failure=case.file.failure_index, output=output)
        yield Job(case, options, ui, resumed=True)


def _check_python(asked: Asked, path: Path, subject: Subject) -> None:
    """Raise UsageError if the command line names another interpreter than that of the case."""
    given = asked.python if "python" in asked.given else None
    if given not in (None, subject.python) and find_python(given, Path.cwd(), os.environ) != subject.python:
        raise UsageError(
            f"{path} was made with {subject.python}. For another interpreter, give collect the original command, "
            "with another --output."
        )


def _continued(asked: Asked, case: Case) -> Options:
    """The options that the case was made with, changed by this command line."""
    kept = read_options(case)
    if kept is None:
        return asked.options
    given = {*asked.given, "jobs", "dry_run", *(("patient",) if "timeout" in asked.given else ())}
    return kept.with_(**{name: value for name, value in asked.options.flat().items() if name in given})
