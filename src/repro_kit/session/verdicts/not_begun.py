"""A script that ends before anything is compiled, by a mistake that its last words name: bad input, not a failure."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from repro_kit.case.case import Subject
from repro_kit.errors import UsageError
from repro_kit.model.failure.failure import ExceptionLink, Failure, Frame
from repro_kit.model.failure.tracebacks import short

_REFUSED = 2  # the exit status of argparse, click, typer, absl and getopt's users for words that they do not take
_USAGE = re.compile(r"^[^\w\n]*usage: ", re.IGNORECASE | re.MULTILINE)
_ERROR = re.compile(r"(?:^|: )error: +(\S.*)|^│ +(\S.*?) +│$", re.IGNORECASE | re.MULTILINE)
_SYNTAX = ("SyntaxError", "IndentationError", "TabError")
_NO_INPUT = "EOF when reading a line"
_NO_MODULE = re.compile(r"^No module named '(\w+)[\w.]*'")
#: How Python names a module that is not the one that was meant.
_OF_MODULE = re.compile(r"module '(\w+)[\w.]*'|from '(\w+)[\w.]*'|'(\w+)' is not a package")
_OF_OTHERS = re.compile(r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib(?:64)?[/\\]python\d|^<")


def refuse(failure: Failure, subject: Subject) -> None:
    """Raise ReproKitError where the script of `failure`, which has compiled nothing, has made such a mistake."""
    for mistake in (_arguments, _input, _hidden, _syntax, _missing):
        sentence = mistake(failure, subject)
        if sentence:
            raise UsageError(sentence)


def _arguments(failure: Failure, subject: Subject) -> str:
    told = _USAGE.search(failure.text) or f"{Path(subject.argv[0]).name}: error: " in failure.text
    if failure.exit_status != _REFUSED or not told:
        return ""
    said = next((one or other for one, other in reversed(_ERROR.findall(failure.text))), "it prints its usage")
    return (
        f"`{subject}` refuses its arguments: {said}. "
        f"The script's own arguments go after it: repro-kit collect --fresh {shlex.join(subject.words)} ARGUMENTS"
    )


def _input(failure: Failure, subject: Subject) -> str:
    if not any(short(link.type) == "EOFError" and _NO_INPUT in link.message for link in failure.exceptions):
        return ""
    again = shlex.join(["repro-kit", "collect", "--fresh", "--", "sh", "-c", f"echo ANSWER | {subject}"])
    return f"`{subject}` asks for input{_at(failure, subject)}, and gets none. To give some: {again}"


def _syntax(failure: Failure, subject: Subject) -> str:
    link = failure.exceptions[-1] if failure.exceptions else None
    if link is None or short(link.type) not in _SYNTAX:
        return ""
    at = link.frames[-1] if link.frames and not link.frames[-1].function else None  # as a printed traceback has it
    file = f"{Path(at.file).name}:{at.line}" if at else "a file that it imports"
    return f"`{subject}` cannot run: {file} has a syntax error: {link.message}."


def _missing(failure: Failure, subject: Subject) -> str:
    link = failure.exceptions[-1] if failure.exceptions else None
    name = _NO_MODULE.match(link.message) if link else None
    if link is None or name is None or not _is_users(_importer(link.frames), subject):
        return ""
    return (
        f"`{subject}` imports {name[1]}{_at(failure, subject)}, which {subject.python} does not have; install it "
        "there, or name the interpreter that has it with --python."
    )


def _hidden(failure: Failure, subject: Subject) -> str:
    for link in failure.exceptions:
        for name in (*_imported(link, subject), *_named(link, subject)):
            file = _file_of(name, subject)
            if file is not None:
                of = "the standard library" if name in sys.stdlib_module_names else "an installed package"
                return f"{file} hides the module {name} of {of}, since it has the same name; rename it, and run again."
    return ""


def _imported(link: ExceptionLink, subject: Subject) -> Iterator[str]:
    """The modules of the user's that a statement in the code of others imports."""
    frames = [frame for frame in link.frames if not frame.file.startswith("<frozen")]
    for importer, module in pairwise(frames):
        path = Path(module.file)
        name = path.parent.name if path.stem == "__init__" else path.stem
        states = re.search(rf"\b(?:import|from)\s+(?:.+,\s*)?{re.escape(name)}\b", importer.code)
        if states and _is_users(module, subject) and not _is_users(importer, subject):
            yield name


def _named(link: ExceptionLink, subject: Subject) -> Iterator[str]:
    """The modules that the message names, where they are not what the importing code expects."""
    names = [name for found in _OF_MODULE.findall(link.message) for name in found if name]
    others = not _is_users(_importer(link.frames), subject) or "consider renaming" in link.message
    yield from (name for name in names if others or name == "torch")


def _file_of(module: str, subject: Subject) -> Path | None:
    """The file of the user's that is imported as `module`."""
    for directory in _first_on_path(subject):
        for file in (directory / f"{module}.py", directory / module / "__init__.py"):
            if file.is_file():
                return file
    return None


def _first_on_path(subject: Subject) -> list[Path]:
    cwd = Path(subject.cwd)
    scripts = [cwd / word for word in subject.argv if word.endswith(".py")] if subject.form != "module" else []
    return [*dict.fromkeys(script.parent for script in scripts), cwd]


def _importer(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame that is not of the import system."""
    return next((frame for frame in reversed(frames) if not frame.file.startswith("<frozen")), None)


def _is_users(frame: Frame | None, subject: Subject) -> bool:
    if frame is None or _OF_OTHERS.search(frame.file):
        return False
    file = Path(subject.cwd, frame.file)
    return any(file.is_relative_to(directory) for directory in _first_on_path(subject))


def _at(failure: Failure, subject: Subject) -> str:
    """The user's line that is nearest to the failure."""
    frames = [frame for link in failure.exceptions for frame in link.frames if _is_users(frame, subject)]
    return f" ({Path(frames[-1].file).name}:{frames[-1].line})" if frames else ""
