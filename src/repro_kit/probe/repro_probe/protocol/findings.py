"""Findings: the files that the probe writes for each process of a run; and the case that `repro_kit.watch` writes."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import stat
from typing import Any, Literal, TypedDict

from .failure_data import ComparisonData, FrameData, LinkData

HELLO, GOODBYE, MEASURED, TIMELINE, WITNESS = "hello", "goodbye", "measured", "timeline", "witness"
EXCEPTION, THREAD_EXCEPTION = "exception", "thread-exception"
RANK = "rank"  # what the process does as one rank of several
EVENTS, COMPILED, LOADED, APPLIED = "events", "compiled", "loaded", "applied"  # files with a line for each event
HIDDEN_WRITES = "hidden-writes"  # another one
STACK, PROBE_ERROR = "stack", "probe-error"  # texts
INPUTS = "inputs"  # the directory of stored values


def finding(name: str, process: object, ending: str = "json") -> str:
    """Return the file name of one process's finding; with ``*`` for `process`, a pattern for all processes."""
    return f"{name}-{process}.{ending}"


class Hello(TypedDict):
    """A process of the run that imported torch."""

    pid: int
    parent: int
    argv: list[str]
    executable: str
    python: str
    torch: str
    time: float  # seconds since the epoch
    rank: str | None


Doing = Literal["compiling", "collective", "python"]


class CollectiveData(TypedDict):
    """One collective that a rank began."""

    name: str
    group: str
    number: int  # of the group's collectives, from 1
    sizes: list[list[int]]
    dtypes: list[str]
    line: str  # of the user's code, ``file:line``; empty where it is unknown
    began: float  # seconds since the epoch
    done: bool


class CompileSpan(TypedDict):
    """A time in which a rank was compiling, as a watch from outside saw it, in seconds since the epoch."""

    began: float
    ended: float


class RankStateData(TypedDict):
    """What a rank did last. `line` is where its main thread was in the user's code."""

    rank: int
    size: int
    time: float
    doing: Doing
    line: str
    collectives: list[CollectiveData]
    compiles: list[CompileSpan]


class Settings(TypedDict):
    """The settings of a process that a program must have too."""

    config: dict[str, Any]
    threads: int
    memory: int | None
    default_dtype: str


class Goodbye(Settings):
    """Written by a process that ends normally."""

    pid: int
    modules: dict[str, str]  # files of the user's own modules, by name
    peak_memory: int | None


class ExceptionNature(TypedDict):
    """The nature of an exception, as far as its traceback shows."""

    machine: bool
    compares: bool
    clock: bool


class Raised(ExceptionNature):
    """An exception that ended a process or a thread. `tolerance` is stated by the check that raised it.

    `interrupted`: the frames that the signal of a timer interrupted whose handler raised it.
    """

    time: float
    exceptions: list[LinkData]
    tolerance: list[float] | None
    interrupted: list[FrameData]


class CompiledCallBase(TypedDict):
    """The fields for every callable that the script compiles."""

    name: str
    calls: int
    backward: bool


class CompiledCallData(CompiledCallBase, ComparisonData, total=False):
    """The measurements of one callable that the script compiles, with the first difference from eager."""

    rounds: list[list[float]]  # seconds of one call: [compiled, eager]
    memory: list[list[int]]  # bytes
    compared: int
    raised: str
    both: str
    lost: list[LinkData]
    problem: str
    watched: str  # what sees which operators run while a call is made, such as a profiler
    states: list[tuple[int, dict[str, Any], dict[str, Any]]]  # number of a call, state after it in eager, and compiled


class MeasuredCalls(TypedDict):
    """The measurements of one process."""

    compiled: list[CompiledCallData]


#: Shape, dtype, sum of magnitudes (None: too large), and some elements of a tensor.
Digest = list[Any]


class TimedCallBase(TypedDict):
    """The fields for every timed call."""

    name: str
    seconds: float
    compiled: bool


class TimedCall(TimedCallBase, total=False):
    """One timed call of a compiled function; digests are None where the values could not be read."""

    result: list[Digest] | None
    inputs: list[Digest] | None


class Timeline(TypedDict):
    """The timed calls of one process."""

    rank: str | None
    started: float
    calls: list[TimedCall]
    left_out: int


#: One witnessed call: function, arguments before, result, state after.
WitnessedCall = list[Any]


WATCHED_SCHEMA = 1
WATCHED_FILE = "watched.json"
WATCHED_DIRECTORY = "watched"  # the directory of the findings
OWNER_FILE = ".owner"


class WatchedData(TypedDict):
    """The file `WATCHED_FILE`."""

    schema: int
    python: str
    torch: str
    command: list[str]
    cwd: str
    created: str
    variables: dict[str, str]
    graphs: int
    dropped: int  # graphs that were dropped because there were too many


_LENGTH = 32


def mark_of(directory: str, text: str) -> str:
    """Return the mark of the directory that `text` describes; "" where no key can be stored."""
    key = _key()
    if not key:
        return ""
    content = f"{os.stat(directory).st_ino}\n{text}"
    return hmac.new(key, content.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _key() -> bytes:
    base = os.environ.get("XDG_STATE_HOME", "")
    base = base if os.path.isabs(base) else os.path.join(os.path.expanduser("~"), ".local", "state")
    path = os.path.join(base, "repro-kit", "key")
    try:
        if not os.path.lexists(path):
            _make(path)
        return _read(path)
    except OSError:
        return b""


def _make(path: str) -> None:
    """Write a new key atomically. A key that another process has written stays."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    aside = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(os.urandom(_LENGTH))
        with contextlib.suppress(FileExistsError):
            os.link(aside, path)
    finally:
        os.unlink(aside)


def _read(path: str) -> bytes:
    """Return the key; nothing where other users could have read or written it."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        others_have_access = hasattr(os, "geteuid") and (status.st_uid != os.geteuid() or status.st_mode & 0o077)
        key = b"" if others_have_access or not stat.S_ISREG(status.st_mode) else file.read(_LENGTH + 1)
    return key if len(key) == _LENGTH else b""
