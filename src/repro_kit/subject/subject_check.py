"""Recognise the user's subject (a script, a module or a command), and check that it can run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from packaging.version import InvalidVersion, Version

from repro_kit.builds.interpreters import executable, find_python, interpreter_behind
from repro_kit.case.case import Case, Subject
from repro_kit.case.stage_results import OBSERVATION
from repro_kit.errors import UsageError
from repro_kit.files import open_plain
from repro_kit.runner.ask import Probe, Question
from repro_kit.runner.torchrun import Launch, launch_of
from repro_kit.trace.reader import packed

Form = Literal["script", "module", "command"]

_OLDEST_TORCH = Version("2.0")
_OLDEST_PYTHON = (3, 9)

#: Runs in the user's interpreter, which may be any Python, beside files that may be called like modules of its library.
_CHECK = Question(
    seconds=60,
    code=r"""
import sys
here = [path for path in sys.path[:1] if not path]
del sys.path[:len(here)]
import json
if sys.version_info < (3, 9):
    print("\n" + json.dumps({"python": sys.version_info[:2]}))
    sys.exit()
import importlib.machinery, importlib.metadata, importlib.util, tokenize, traceback
sys.path[:0] = here
request = json.load(sys.stdin)
report = {"python": sys.version_info[:2], "torch": None, "module": True, "syntax": None}
if importlib.util.find_spec("torch"):
    try:
        report["torch"] = importlib.metadata.version("torch")
    except Exception:
        report["torch"] = ""
if request["module"]:
    paths, parts = None, request["module"].split(".")
    for at in range(len(parts)):
        name = ".".join(parts[: at + 1])
        try:
            spec = importlib.util.find_spec(name) if at == 0 else importlib.machinery.PathFinder.find_spec(name, paths)
        except Exception:
            spec = None
        paths = spec.submodule_search_locations if spec else None
        report["module"] = spec is not None
        if not paths:
            report["module"] = report["module"] and at == len(parts) - 1
            break
if request["script"]:
    try:
        with open(request["script"], "rb") as file:
            compile(file.read(), request["script"], "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        kind, error, _ = sys.exc_info()
        report["syntax"] = "".join(traceback.format_exception_only(kind, error))
print("\n" + json.dumps(report))
""",
)


@dataclass(frozen=True)
class _Checked:
    """The answer; an old Python only reports its version. `torch`: "" if its version is unknown."""

    python: tuple[int, int]
    torch: str | None = None
    module: bool = True
    syntax: str | None = None


#: A descriptor of the shell's, as ``<(command)`` gives it to a command.
_OF_SHELL = re.compile(r"(?:^|=)/(?:dev|proc/self)/fd/\d+$")


def recognise(form: Form, argv: Sequence[str], cwd: Path, python: str | None, env: Mapping[str, str]) -> Subject:
    """The subject that `argv` names, run in `cwd` with `python` (default: the interpreter of the active environment).

    Raises ReproKitError when repro-kit cannot work on it; the message says what is wrong and what to do.
    """
    if not (argv and argv[0]):
        raise UsageError("Nothing to run: give a SCRIPT, -m MODULE, or -- COMMAND.")
    if of_shell := next(filter(_OF_SHELL.search, argv), None):
        raise UsageError(
            f"{of_shell} is open in this shell alone, and the command runs several times; write it to a file."
        )
    if form == "command":
        program = executable(argv[0], cwd, env)
        if program is None:
            raise UsageError(f"{argv[0]} is not a command: there is no such file, here or on PATH.")
        return Subject(
            form, tuple(argv), str(cwd), find_python(python, cwd, env, guess=interpreter_behind(program, env))
        )
    script = cwd / argv[0] if form == "script" else None
    if script is not None:
        check_script(script, argv[0])
    interpreter = find_python(python, cwd, env)
    check_interpreter(interpreter, cwd, env, script=script, module=argv[0] if form == "module" else None)
    return Subject(form, tuple(argv), str(cwd), interpreter)


def program_subject(case: Path, cwd: Path, python: str | None, env: Mapping[str, str]) -> Subject:
    """The subject of a case that was made from a program alone: the captured program, as a script."""
    interpreter = find_python(python, cwd, env)
    check_interpreter(interpreter, cwd, env)
    return Subject("script", (str(case.absolute() / "capture" / "program.py"),), str(cwd), interpreter)


def exported_subject(script: Path, program: Path, cwd: Path, python: str | None, env: Mapping[str, str]) -> Subject:
    """The subject of a case that was made from an exported program: a script that compiles the file `program`."""
    interpreter = find_python(python, cwd, env)
    check_interpreter(interpreter, cwd, env)
    return Subject("script", (str(script), str(program)), str(cwd), interpreter)


def is_program_alone(case: Case) -> bool:
    """Whether the case was made from a program, without a script of the user's."""
    return case.file.subject.argv == (str(case.path.absolute() / "capture" / "program.py"),)


def is_python(path: Path) -> bool:
    """Whether the file `path` says that it is Python: by its name, or by its first line."""
    if path.suffix in (".py", ".pyw"):
        return True
    if not path.is_file():
        return False
    with open_plain(path) as file:
        first = file.readline(500)
    return first.startswith(b"#!") and b"python" in first


def check_script(path: Path, shown: str) -> None:
    """Raise ReproKitError unless Python can run the file `path`; `shown` is the name that the user gave."""
    if path.is_dir():
        raise UsageError(f"{shown} is a directory, but no case and no trace; give a script, or -m MODULE.")
    if not path.exists():
        raise UsageError(f"{shown} does not exist; give the path of a script or of a case, or -m MODULE.")
    if path.suffix == ".ipynb":
        raise UsageError(
            f"{shown} is a notebook; export it with `jupyter nbconvert --to script {shlex.quote(shown)}` and collect "
            "the script."
        )
    if path.suffix == ".zip":
        raise UsageError(f"{shown} is an archive; `repro-kit verify {shlex.quote(shown)}` runs a bundle.")
    try:
        start = open_plain(path).read(65536) if path.is_file() else b"\0"
    except OSError as error:
        raise UsageError(f"{shown} cannot be read: {error.strerror}.") from error
    if compressed := packed(path):
        raise UsageError(compressed)
    if b"\0" in start or not (path.suffix == "" or is_python(path)):
        raise UsageError(
            f"{shown} is not a Python file; to run another kind of program write the whole command after `--`."
        )


def check_interpreter(
    python: str, cwd: Path, env: Mapping[str, str], *, script: Path | None = None, module: str | None = None
) -> str:
    """The version of torch in interpreter `python`, found without importing torch.

    Raises ReproKitError when torch is missing or too old, or when the interpreter cannot run `script` or `module`.
    """
    report = Probe(python, cwd, env).ask(
        _CHECK, _Checked, {"script": str(script) if script else None, "module": module}
    )
    if tuple(report.python) < _OLDEST_PYTHON:
        raise UsageError(
            f"{python} is Python {report.python[0]}.{report.python[1]}, and 3.9 is the oldest that can be used; "
            "give a newer one with --python PATH."
        )
    if report.torch is None:
        raise UsageError(f"{python} has no torch; activate the environment that has it, or give --python PATH.")
    if _too_old(report.torch):
        raise UsageError(f"{python} has torch {report.torch}, which has no torch.compile; 2.0 is the oldest supported.")
    if not report.module:
        raise UsageError(f"{python} finds no module {module}; start repro-kit where `python -m {module}` works.")
    if report.syntax:
        raise UsageError(f"{script} has a syntax error, says {python}:\n{report.syntax.rstrip()}")
    return str(report.torch)


def _too_old(torch: str) -> bool:
    try:
        return bool(torch) and Version(torch).release < _OLDEST_TORCH.release
    except InvalidVersion:
        return False  # a build of the user's own


def fails_in_eager(case: Case) -> bool:
    """Whether the subject was seen to fail alike without torch.compile."""
    return case.holds(OBSERVATION) and case.load(OBSERVATION).in_eager


def launch_in(subject: Subject) -> Launch | None:
    """The launch of ranks that `subject` makes, if it is the command of a launcher."""
    return launch_of(subject.argv) if subject.form == "command" else None


def rank_subject(subject: Subject) -> Subject:
    """The script or module that each rank runs, as a subject; `subject` itself where no launcher starts it."""
    launch = launch_in(subject)
    if launch is None:
        return subject
    return replace(subject, form="module" if launch.module else "script", argv=(launch.script, *launch.arguments))
