"""Failures that show that the machine lacks what compiling needs: a C++ compiler, disk space, memory, processes, files.

They are no evidence against the compiler, whoever raises them.
"""

from __future__ import annotations

import os
import re
from errno import EDQUOT, EMFILE, ENFILE, ENOMEM, ENOSPC

from repro_kit.model.failure.failure import ExceptionLink, Failure
from repro_kit.model.failure.tracebacks import short

COMPILER = "a C++ compiler that works"
_DISK, _FILES, _MEMORY, _PROCESSES = "space on the disk", "file descriptors", "memory", "room for another process"
_PYTHON, _OPENMP = "the headers of Python (Python.h)", "the headers of OpenMP (omp.h)"
_REMEDIES = {
    COMPILER: "Install g++ or clang, or let CXX name one that works",
    _DISK: "Free some space",
    _FILES: "Raise the limit (ulimit -n)",
    _MEMORY: "Close other programs, or raise the limit (ulimit -v)",
    _PROCESSES: "Close other programs, or raise the limit (ulimit -u)",
    _PYTHON: "Install them (python3-dev, or python3-devel)",
    _OPENMP: "Install them (libomp-dev, or libomp)",
}


def _texts(*numbers: int) -> str:
    """The words of the C library for these errors."""
    return "|".join(re.escape(os.strerror(number)) for number in numbers)


#: What messages say of it. (An allocation of tensors that fails is no such thing: the compiler may ask for too much.)
_SAID = (
    (re.compile(_texts(ENOSPC, EDQUOT), re.IGNORECASE), _DISK),
    (re.compile(_texts(EMFILE, ENFILE), re.IGNORECASE), _FILES),
    (
        re.compile(
            r"can't start new thread|\bfork: retry|(?:v?fork|pthread_create|posix_spawn|Thread creation)\b[^\n]{0,80}"
            r"Resource temporarily unavailable",
            re.IGNORECASE,
        ),
        _PROCESSES,
    ),
    (
        re.compile(
            rf"\[Errno {ENOMEM}\] {_texts(ENOMEM)}|virtual memory exhausted|cc1plus: out of memory|"
            r"Killed signal terminated program"
        ),
        _MEMORY,
    ),
    (
        re.compile(r"No working C\+\+ compiler found|cannot execute ['‘]?cc1plus|error trying to exec ['‘]?cc1plus"),
        COMPILER,
    ),
    (re.compile(r"fatal error: ['‘]?Python\.h['’]?(?: file not found|: No such file)"), _PYTHON),
    (re.compile(r"fatal error: ['‘]?omp\.h['’]?(?: file not found|: No such file)"), _OPENMP),
)
_OF_STARTS = ("_execute_child", "_fork_exec", "fork", "_launch", "_spawn_posix", "spawnv_passfds")  # functions
_COMPILES = "CppCompileError"
_COMMAND = re.compile(r"^Command:\s*(?P<words>\S.*)", re.MULTILINE)


def missing_resource(failure: Failure) -> str:
    """What the machine lacks; empty if the failure shows no such lack."""
    for link in failure.exceptions:
        if lacking := lacks(link.message) or _of_type(link):
            return lacking
    return "" if failure.exceptions else lacks(failure.text[-4000:])


def lacks(text: str) -> str:
    """What the machine lacks according to the message `text`; empty if it says nothing of the kind."""
    return next((name for says, name in _SAID if says.search(text)), "")


def remedy(lacking: str) -> str:
    """What the user can do about what the machine lacks."""
    return next((words for name, words in _REMEDIES.items() if lacking.startswith(name)), _REMEDIES[_MEMORY])


def _of_type(link: ExceptionLink) -> str:
    if short(link.type) == "InvalidCxxCompiler":
        return COMPILER
    started = bool(link.frames) and link.frames[-1].function in _OF_STARTS
    return _PROCESSES if short(link.type) == "BlockingIOError" and started else ""


def refused_by_compiler(failure: Failure) -> tuple[str, ...]:
    """The C++ compiler's command line, if it refused a kernel: the kernel may be wrong, or the compiler broken."""
    for link in failure.exceptions:
        command = _COMMAND.search(link.message) if short(link.type) == _COMPILES or _COMPILES in link.message else None
        if command:
            return tuple(command["words"].split())
    return ()
