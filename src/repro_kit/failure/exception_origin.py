"""The origin that one failure shows: the compiler, a comparison, the machine, or the user's own code."""

from __future__ import annotations

import builtins
import os
import re
from enum import StrEnum
from errno import ECONNABORTED, ECONNREFUSED, ECONNRESET, EFBIG, EIO, ENETUNREACH, EROFS, ESTALE

from repro_kit.failure.classify import is_compilers_type
from repro_kit.failure.failure import ExceptionLink, Failure
from repro_kit.failure.frames import rises_in_compiler, torch_path
from repro_kit.failure.missing import missing_resource
from repro_kit.failure.tracebacks import last_words, short


class Nature(StrEnum):
    """The origin that one run shows for a failure."""

    COMPILER = "compiler"  # raised in the compiler, or in code that the compiler generated
    COMPARISON = "comparison"  # a check of tensors failed
    MACHINE = "machine"  # a full disk, a lost connection, a signal from outside: never evidence against the compiler
    OBSERVER = "observer"  # raised in repro-kit's own code that watched the program
    TIME = "time"  # the user's own exception about a duration: never evidence against the compiler
    OPEN = "open"  # one run does not show the origin


#: Conditions of the machine, besides a lack of what it has too little of. They may appear in the compiler too.
_CONDITIONS = (EFBIG, EIO, EROFS, ESTALE, ECONNREFUSED, ECONNRESET, ECONNABORTED, ENETUNREACH)
#: How GCC's driver says that the system ended one of its passes (gcc.cc).
_OF_NATIVE_COMPILERS = r"(?:Terminated|CPU time limit exceeded|File size limit exceeded) signal terminated program"
_CONDITION = re.compile(
    "|".join([*(re.escape(os.strerror(number)) for number in _CONDITIONS), _OF_NATIVE_COMPILERS]), re.IGNORECASE
)
#: What the other ranks raise when one rank has ended, or does not reach a collective (gloo's transport/tcp/pair.cc
#: and unbound_buffer.cc, ProcessGroupGloo; NCCL's ncclRemoteError and the watchdog of torch's ProcessGroupNCCL).
_OF_A_PEER = re.compile(
    r"Connection (?:closed|reset) by peer|remote process exit|Timed out waiting \d+ms for (?:recv|send) operation"
    r"|Application timeout caused pair closure|failed to pass monitoredBarrier"
    r"|Watchdog caught collective operation timeout|NCCL communicator was aborted",
    re.IGNORECASE,
)
_OF_THE_STORE = "DistNetworkError"  # also raised if the rank at which the ranks meet has ended (torch's TCPStore)
_MACHINES = {name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, OSError)} | {
    "KeyboardInterrupt",
    "EOFError",
    "BrokenProcessPool",
    "BrokenExecutor",
    "gaierror",
    "herror",
    "URLError",
}
_MACHINES_NAME = re.compile(
    r"(?:Connection|Timeout|TimedOut|Network|Socket|SSL|HTTP\w*|Dist\w+)(?:Error|Exception|Expired)?$"
)
_SENT = re.compile(r"SIG(?:HUP|INT|QUIT|TERM|PIPE|ALRM|USR[12]|XCPU|XFSZ|STOP|TSTP)")
#: Exit statuses (128 + signal) that a shell returns for HUP, INT, QUIT, KILL, PIPE, ALRM, TERM, XCPU and XFSZ.
_SENT_STATUSES = frozenset(128 + number for number in (1, 2, 3, 9, 13, 14, 15, 24, 25))
_TIME = re.compile(
    r"\b(?:SLA|latency|deadline|time ?limit|time-?out|timed out|too (?:long|slow)|took|elapsed|slower|seconds"
    r"|throughput|(?:samples|tokens|steps|items|it)/s(?:ec)?|\d+\s?(?:ms|µs|us|ns|s|sec|secs|min))\b",
    re.IGNORECASE,
)
#: The parts of the probe that only watch. (Others replace a function of torch, and raise what the user may meet.)
_WATCHING = re.compile(r"(?:^|/)repro_probe/(?:calls|common|judge|protocol|record)/")
_ANYWHERE = ("RecursionError", "MemoryError", "KeyboardInterrupt")  # raised wherever the program happens to be
_TESTING = re.compile(r"(?:^|/)(?:torch|numpy)/(?:testing|_?core/.*testing)/")


def nature_of(failure: Failure, *, machine: bool = False, compares: bool = False, clock: bool = False) -> Nature:
    """The origin that `failure` shows.

    `machine`, `compares` and `clock` are what the probe saw of the exception (probe/repro_probe/record/raised.py).
    """
    if any(map(_is_observers, failure.exceptions)):
        return Nature.OBSERVER
    if _SENT.fullmatch(failure.signal or "") or failure.exit_status in _SENT_STATUSES:
        return Nature.MACHINE
    if missing_resource(failure) or any(_CONDITION.search(link.message) for link in failure.exceptions):
        return Nature.MACHINE
    if is_of_a_peer(failure):
        return Nature.MACHINE
    if _in_compiler(failure):
        return Nature.COMPILER
    if any(_is_testing(link) for link in failure.exceptions):
        return Nature.COMPARISON
    if machine or any(_is_machines(link) for link in failure.exceptions):
        return Nature.MACHINE
    if clock:
        return Nature.TIME
    if compares and not _checks_arguments(failure):
        return Nature.COMPARISON
    return Nature.TIME if any(_TIME.search(link.message) for link in failure.exceptions) else Nature.OPEN


def is_of_a_peer(failure: Failure) -> bool:
    """Whether `failure` is what one rank raises because another rank failed, or was late."""
    if failure.signal == "SIGABRT" and _OF_A_PEER.search(last_words(failure.text)):
        return True  # the watchdog of NCCL raises in its own thread, which ends the process
    return any(_OF_A_PEER.search(link.message) or short(link.type) == _OF_THE_STORE for link in failure.exceptions)


def _in_compiler(failure: Failure) -> bool:
    if failure.compile_id or failure.step or rises_in_compiler(failure.stack):
        return True
    return any(is_compilers_type(link.type) or rises_in_compiler(link.frames) for link in failure.exceptions)


def _is_observers(link: ExceptionLink) -> bool:
    if not link.frames or short(link.type) in _ANYWHERE:
        return False
    return bool(_WATCHING.search(link.frames[-1].file.replace("\\", "/")))


def _is_testing(link: ExceptionLink) -> bool:
    return bool(link.frames) and bool(_TESTING.search(link.frames[-1].file.replace("\\", "/")))


def _checks_arguments(failure: Failure) -> bool:
    """Whether torch's own code raised the exception: a check of its arguments, not of a result."""
    frames = failure.exceptions[0].frames if failure.exceptions else ()
    return bool(frames) and torch_path(frames[-1].file) is not None


def _is_machines(link: ExceptionLink) -> bool:
    name = short(link.type)
    return name in _MACHINES or bool(_MACHINES_NAME.search(name))
