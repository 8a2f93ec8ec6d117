"""Failures over something that is missing: a resource or a device of this machine, or a name of the program."""

from __future__ import annotations

import os
import re
from errno import EDQUOT, EFBIG, EMFILE, ENFILE, ENOMEM, ENOSPC

from repro_kit.failure.failure import ExceptionLink, Failure
from repro_kit.failure.frames import torch_path
from repro_kit.failure.tracebacks import short

COMPILER, CPU_TIME = "a C++ compiler that works", "processor time"
_DISK, _FILES, _MEMORY, _PROCESSES = "space on the disk", "file descriptors", "memory", "room for another process"
_FILE_SIZE, _PLACE = "room for a file of that size", "a directory for temporary files that libraries are loaded from"
_PYTHON, _OPENMP = "the headers of Python (Python.h)", "the headers of OpenMP (omp.h)"
_REMEDIES = {
    COMPILER: "Install g++ or clang, or let CXX name one that works",
    _DISK: "Free some space",
    _FILES: "Raise the limit (ulimit -n)",
    _MEMORY: "Close other programs, or raise the limit (ulimit -v)",
    _PROCESSES: "Close other programs, or raise the limit (ulimit -u)",
    CPU_TIME: "Raise the limit (ulimit -t)",
    _FILE_SIZE: "Raise the limit (ulimit -f)",
    _PLACE: "Let TMPDIR name one that is not mounted with noexec",
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
    (re.compile(rf"(?:{_texts(EFBIG)}|File size limit exceeded)", re.IGNORECASE), _FILE_SIZE),
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
            r"Killed signal terminated program|Killed \(program|ld: memory exhausted|"
            rf"shared object(?: file)?: {_texts(ENOMEM)}"
        ),
        _MEMORY,
    ),
    (re.compile(r"failed to map segment from shared object"), _PLACE),
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


_OF_COMPILER = tuple(f"torch/_inductor/{name}.py" for name in ("cpp_builder", "cpu_vec_isa", "codecache"))


def asks_compiler(failure: Failure) -> bool:
    """Whether it was raised where torch asks the C++ compiler for something: for its version, a header, or a kernel."""
    return any(torch_path(frame.file) in _OF_COMPILER for link in failure.exceptions for frame in link.frames)


#: What torch says of a device that is not there, with its name if the message has none.
_MISSING = (
    (re.compile(r"Torch not compiled with (\w+) enabled"), ""),
    (re.compile(r"not linked with support for (\w+) devices"), ""),
    (re.compile(r"^torch\.\w+\.\w+ requires (\w+) support"), ""),
    (re.compile(r"Attempting to deserialize object on an? (\w+) device"), ""),
    (re.compile(r"No (\w+) GPUs are available"), ""),
    (re.compile(r"Found no NVIDIA driver on your system|CUDA error: no CUDA-capable device is detected"), "CUDA"),
    (re.compile(r"CUDA error: invalid device ordinal|deserialize object on \w+ device \d+ but"), "another GPU"),
    (re.compile(r"Tried to instantiate dummy base class|Cannot access accelerator device when none is"), "a GPU"),
)
#: What compiled code says if such a device is missing. A machine that has it may say the same for other reasons.
_FOR_WANT_OF_IT = re.compile(
    r"Could not run '[\w:.]+' with arguments from the '(?:CUDA|XPU|MPS|HPU|MTIA|PrivateUse1)' backend"
    r"|Cannot find a working triton installation"
)


def missing_device(failure: Failure) -> str:
    """The device that is missing (``CUDA``, or ``a GPU`` where the message has no name); empty if none is."""
    for link in failure.exceptions:
        for says, name in _MISSING:
            found = says.search(link.message)
            if found:
                return name or found[1].upper()
    return ""


def may_lack_device(failure: Failure) -> bool:
    """Whether a missing device may be the cause: only a run without the compiler shows whether one is missing."""
    return bool(missing_device(failure)) or any(_FOR_WANT_OF_IT.search(link.message) for link in failure.exceptions)


_NAMES = ("NameError", "UnboundLocalError", "ImportError", "ModuleNotFoundError")
#: How torch says that it has no such operator (torch/_ops.py, c10's dispatcher, torch/library.py).
_OPERATOR = re.compile(
    r"_(?:Op|HigherOrder)Namespace'|has no overload name|[Nn]o such operator|[Cc]ould not find (?:schema|an? operator)"
    r"|operator \S+ does not exist|Couldn't find operator"
    # an operator of that name that takes other arguments
    r"|^\w+::\w+\(\) (?:expected at most \d+ argument|"
    r"is missing value for argument)|Unknown keyword argument '\w+' for operator"
    r"|failed to match any schema"
)
_OF_LOOKUPS = (None, "torch/_ops.py", "torch/__init__.py", "torch/_classes.py")  # files: None is the program itself


def lost_name(failure: Failure | None) -> str:
    """The error, in words, if the innermost exception is over a name of the program's own; else empty."""
    if failure is None or not failure.exceptions:
        return ""
    root = failure.exceptions[-1]
    return f"{short(root.type)}: {root.message.partition(chr(10))[0]}" if _is_lost(root) else ""


def _is_lost(link: ExceptionLink) -> bool:
    here = torch_path(link.frames[-1].file) if link.frames else None
    if short(link.type) in _NAMES or _OPERATOR.search(link.message):
        return True
    return short(link.type) == "AttributeError" and here in _OF_LOOKUPS
