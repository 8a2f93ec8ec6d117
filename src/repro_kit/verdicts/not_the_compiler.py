"""Reports of a script that cannot run here, ends before anything is compiled, or fails in eager, too."""

from __future__ import annotations

import os
import re
import resource
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from repro_kit.case.case import Case, Subject
from repro_kit.case.stage_results import OBSERVATION, ObservedFailure
from repro_kit.errors import Exit, Stop, UsageError
from repro_kit.failure.classify import failure_from_text
from repro_kit.failure.failure import ExceptionLink, Failure, Frame
from repro_kit.failure.frames import torch_path
from repro_kit.failure.kinds import Kind
from repro_kit.failure.missing import (
    COMPILER,
    CPU_TIME,
    asks_compiler,
    missing_device,
    missing_resource,
    refused_by_compiler,
    remedy,
)
from repro_kit.failure.moved_to_cpu import gpu_only
from repro_kit.failure.signature import in_words, raised_words, signature_of
from repro_kit.failure.tracebacks import short
from repro_kit.runner import supervised
from repro_kit.runner.places import scratch
from repro_kit.verdicts import observed_failures
from repro_kit.verdicts.observed_failures import tail


def lacks_device(failure: Failure) -> str:
    """The sentence about a script that fails with `failure`, which the compiler has no part in."""
    device = missing_device(failure)
    return (
        f"The program needs {device}, which this machine lacks: {in_words(signature_of(failure), failure)}."
        f" Run this command on a machine with {device}, or on a copy of the program with 'cpu' for its devices: a"
        f" failure that shows there does not need {device}."
    )


def printed_lack(output: Path) -> Failure | None:
    """The failure at the end of the file `output`, if a missing device is its cause."""
    failure = failure_from_text(tail(output))
    return failure if failure is not None and missing_device(failure) else None


_AT_TIME_LIMIT = ("SIGKILL", "SIGXCPU")
_SECONDS = 120  # for a program of two lines
_ALL_NEED = ("-std=", "-fopenmp", "-L", "-lgomp", "-lomp", "-liomp5")  # options of all that torch compiles
_PROGRAM = "#include <vector>\nint main() { return std::vector<int>(1)[0]; }\n"


def lacks_resource(failure: Failure) -> Stop | None:
    """The end of the work where `failure` is the machine's: torch.compile has no part in it; None for any other."""
    lacking = missing_resource(failure)
    refused = refused_by_compiler(failure) or ((os.environ.get("CXX") or "g++",) if asks_compiler(failure) else ())
    if not lacking and refused and (said := _refuses_everything(refused)):
        return _stop(COMPILER, f"{refused[0]} cannot compile a program of two lines: {said}")
    if not lacking and failure.signal in _AT_TIME_LIMIT and (limit := _limit(resource.RLIMIT_CPU)):
        lacking = f"{CPU_TIME}: its limit is {limit} s"
    if (
        not lacking
        and failure.kind is Kind.OOM
        and (limit := _limit(resource.RLIMIT_AS) or _limit(resource.RLIMIT_DATA))
    ):
        lacking = f"memory: its limit is {limit / 2**30:.1f} GiB"
    return _stop(lacking, in_words(signature_of(failure), failure)) if lacking else None


def _stop(lacking: str, seen: str) -> Stop:
    return Stop(
        Exit.CANNOT_RUN,
        f"This machine lacks {lacking}, so nothing can be said of the compiler: {seen}. {remedy(lacking)}, and run the"
        " same command again with --fresh.",
    )


def _refuses_everything(refused: Sequence[str]) -> str:
    """The last words of the C++ compiler where it cannot compile the simplest program; empty where it can.

    `refused`: a command of torch's, whose standard of C++ and library for threads the program is compiled with.
    """
    with scratch() as directory:
        source = directory / "program.cpp"
        source.write_text(_PROGRAM, encoding="utf-8")
        try:
            flags = [word for word in refused[1:] if word.startswith(_ALL_NEED)]
            command = [refused[0], "-x", "c++", str(source), "-o", str(directory / "program"), *flags]
            done = supervised.run(command, timeout=_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if not done.returncode and not (directory / "program").exists():
            return "it makes no file"
    lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
    return (lines[0] if lines else f"exit status {done.returncode}") if done.returncode else ""


def _limit(kind: int) -> int:
    """What a process of this user's may have (bytes, seconds), by a limit that the shell has set; 0 without one."""
    limit, _ = resource.getrlimit(kind)
    return 0 if limit == resource.RLIM_INFINITY else limit


_REFUSED = 2  # the exit status of argparse, click, typer, absl and getopt's users for words that they do not take
_USAGE = re.compile(r"^[^\w\n]*usage: ", re.IGNORECASE | re.MULTILINE)
_ERROR = re.compile(r"(?:^|: )error: +(\S.*)|^│ +(\S.*?) +│$", re.IGNORECASE | re.MULTILINE)
_NOT_FOUND, _NONE_COLLECTED = 4, 5  # exit statuses of pytest
_NO_TEST = re.compile(r"^ERROR: (?!usage: )(.+?)\.?$", re.MULTILINE)
_SYNTAX = ("SyntaxError", "IndentationError", "TabError")
_NO_INPUT = "EOF when reading a line"
_NO_MODULE = re.compile(r"^No module named '([\w.]+)'")
#: How Python names a module that is not the one that was meant.
_OF_MODULE = re.compile(r"module '(\w+)[\w.]*'|from '(\w+)[\w.]*'|'(\w+)' is not a package")
_OF_OTHERS = re.compile(r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib(?:64)?[/\\]python\d|^<")


def refuse_what_did_not_begin(failure: Failure, subject: Subject) -> None:
    """Raise ReproKitError where the script of `failure`, which has compiled nothing, has made such a mistake."""
    for mistake in (_arguments, _no_test, _input, _hidden, _syntax, _missing):
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


def _no_test(failure: Failure, subject: Subject) -> str:
    runs_pytest = any(Path(word).name in ("pytest", "py.test") for word in subject.argv[:3])
    if not runs_pytest or failure.exit_status not in (_NOT_FOUND, _NONE_COLLECTED):
        return ""
    said = _NO_TEST.search(failure.text) if failure.exit_status == _NOT_FOUND else None
    return f"pytest runs no test: {said[1] if said else f'it ends with exit status {failure.exit_status}'}."


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


def not_on_cpu(case: Case, ended: Stop) -> Stop:
    """`ended`, or "GPU only" where it says of the program on the CPU that the compiler is not to blame."""
    match ended.exit_code:
        case Exit.NOTHING_FAILED:
            seen = "it passes"
        case Exit.ROUNDING:
            seen = "its results differ from eager's by rounding alone"
        case Exit.USER_BUG:
            seen = f"it does not {_alone(case)}"
        case _:
            return ended
    runs = ended.exit_code is not Exit.USER_BUG
    return Stop(Exit.CANNOT_RUN, gpu_only(case.file.moved_from, seen, None, runs=runs))


def _alone(case: Case) -> str:
    """What the program does not do in eager."""
    chosen = case.load(OBSERVATION).failures[case.file.failure_index]
    if chosen.failure.kind.policy.hangs:
        return "end in time, not even without torch.compile (--timeout gives it longer)"
    return f"run, not even without torch.compile ({raised_words(chosen.failure)})"


#: How `OptimizedModule` names what it wraps, whether or not it compiles (torch/_dynamo/eval_frame.py).
_WRAPPER = re.compile(r"\b_orig_mod\.\w")
_OF_WRAPPER = (
    "The program fails with compiling switched off too, so no compiled code is to blame. `_orig_mod` is what "
    "torch.compile(module) adds to the names of parameters, compiled or not: use the names of the module itself, or "
    "compile it in place, by module.compile()"
)
#: What Dynamo raises, and says of a higher-order operator. (Other functions of torch run Dynamo in eager as well.)
_DYNAMOS = re.compile(r"^torch\._dynamo\.exc\.")
_HIGHER_ORDER = re.compile(r"\bhigher.order op", re.IGNORECASE)
_OF_AN_OPERATOR = (
    "The program fails without torch.compile too. A higher-order operator (scan, map and the like) has Dynamo trace "
    "its function in eager as well, and Dynamo refuses that function: change it as the message says"
)


#: The call itself: what is compiled runs later.
_OF_THE_CALL = (
    "torch.compile(…) itself raises this, with compiling switched off too, so that no compiled code is to blame: look "
    "at its arguments, and at what the script sets before"
)


#: The line of the script for an exported program that loads it, and what that script says where it loads nothing
#: (commands/intake/exported_file.py). That torch cannot load a file says nothing of the program in it.
_LOADS = "exported = torch.export.load("
_LOADS_NOTHING = re.compile(r"^(?:Nothing was loaded: .+|The exported program holds no example inputs; .+)$", re.M)


def stop_for_eager_failure(chosen: ObservedFailure) -> Stop:
    """The end of the work, with the failure in words."""
    failure = chosen.failure
    if said := _not_loaded(failure):
        return Stop(Exit.CANNOT_RUN, f"The exported program cannot be run with this torch: {said}")
    words = "The program fails without torch.compile too, so the compiler is not to blame"
    if any(_WRAPPER.search(link.message) for link in failure.exceptions):
        words = _OF_WRAPPER
    elif any(_is_the_call(frame) for link in failure.exceptions for frame in link.frames):
        words = _OF_THE_CALL
    elif any(_DYNAMOS.match(link.type) and _HIGHER_ORDER.search(link.message) for link in failure.exceptions):
        words = _OF_AN_OPERATOR
    # A check of the script's own shows no wrong result where eager fails it too.
    seen = raised_words(failure) if failure.kind is Kind.ACCURACY else in_words(chosen.signature, failure)
    said = f"{words}: {seen}\n{observed_failures.excerpt(failure)}"
    return Stop(Exit.USER_BUG, said)


def _not_loaded(failure: Failure) -> str:
    """Why the script for an exported program did not come to the program; empty for any other failure."""
    if any(frame.code.startswith(_LOADS) for link in failure.exceptions for frame in link.frames):
        return in_words(signature_of(failure), failure)
    found = None if failure.exceptions else _LOADS_NOTHING.search(failure.text)
    return found[0] if found else ""


def _is_the_call(frame: Frame) -> bool:
    return frame.function == "compile" and torch_path(frame.file) == "torch/__init__.py"
