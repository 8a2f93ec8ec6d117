"""The case: a directory that holds everything known about one failure. It is all that the stages share."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shlex
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import orjson
import tomli_w

from repro_kit.errors import UsageError
from repro_kit.failure.moved_to_cpu import MovedToCpu
from repro_kit.failure.signature import Signature
from repro_kit.files import LARGEST, check_tree, read_plain, write_atomic
from repro_kit.ownership import is_marked, mark_of
from repro_kit.probe.repro_probe.protocol.findings import OWNER_FILE
from repro_kit.serialize import dumps, from_data, to_data

T = TypeVar("T")

SCHEMA = 1
CASE_FILE = "case.toml"
STAGES = ("observe", "capture", "minify", "ablate", "bundle")
#: What stands before the words of a subject on the command line.
_FORMS: dict[str, tuple[str, ...]] = {"script": (), "module": ("-m",), "command": ("--",)}
_OF_THE_PROGRAM = ("minify", "ablate", "bundle")  # stages that use the captured program

#: `stopped`: the stage is done, and the later stages have nothing to do (nothing failed, or the bug is the user's).
StageStatus = Literal["done", "failed", "skipped", "interrupted", "stopped"]


@dataclass(frozen=True)
class StageRecord:
    """The end of one stage's run; `note` is one sentence, shown to the user."""

    name: str
    status: StageStatus
    note: str = ""
    seconds: float = 0.0
    settings: str = ""  # the options and inputs of the result, as text; the result is stale when they change
    about: str = ""  # `Case.about` at the end of the stage; "" if the case was made with the result: always current


@dataclass(frozen=True)
class Subject:
    """The user's command: how it is started, where, and with which interpreter."""

    form: Literal["script", "module", "command"]
    argv: tuple[str, ...]  # SCRIPT ARGS…, MODULE ARGS…, or COMMAND…
    cwd: str
    python: str  # interpreter that has torch

    @property
    def words(self) -> tuple[str, ...]:
        """The words that stand for it on repro-kit's command line."""
        return (*_FORMS[self.form], *self.argv)

    def __str__(self) -> str:
        """The command as its user would type it."""
        return shlex.join(self.argv if self.form == "command" else ("python", *self.words))


@dataclass(frozen=True)
class CaseFile:
    """`case.toml`."""

    schema: int
    subject: Subject
    created: str  # ISO 8601, UTC
    failure_index: int = 0  # which of the failures in observe's result this case is about
    signature: Signature | None = None
    stages: tuple[StageRecord, ...] = field(default=())
    moved_from: tuple[str, ...] = ()  # devices that this machine lacks, of an exported program that runs on the CPU
    exported: str = ""  # SHA-256 of the exported program that the case was made for, and that the user let torch load
    subject_note: str = ""  # a sentence that says how the subject differs from the command that the user gave

    @property
    def moved_to_cpu(self) -> MovedToCpu | None:
        """How the exported program came to the CPU; None if it was not moved. Its file says of no failure."""
        return MovedToCpu(self.moved_from) if self.moved_from else None


@dataclass(frozen=True)
class ResultFile(Generic[T]):
    """The handle of a JSON file of a case: the stage that writes it, its path in the case, and its class."""

    stage: str
    name: str
    cls: type[T]


class Case:
    """A case on disk. Reads are typed; writes are atomic."""

    def __init__(self, path: Path, file: CaseFile) -> None:
        self.path = path
        self.file = file

    @classmethod
    def create(cls, path: Path, subject: Subject, created: str, failure: int = 0) -> Case:
        """A new case at `path`, which is created with its parents. Raises UsageError when it cannot be written."""
        case = cls(path, CaseFile(schema=SCHEMA, subject=subject, created=created, failure_index=failure))
        try:
            path.mkdir(parents=True, exist_ok=True)
            case.accept()
            case.save()
        except OSError as error:
            raise UsageError(
                f"Cannot write the case {path}: {error.strerror}; choose another place with --output."
            ) from error
        return case

    @classmethod
    def open(cls, path: Path) -> Case:
        """The case at `path`. Raises UsageError when there is none, or when it is damaged or too new."""
        try:
            data = tomllib.loads(read_plain(path / CASE_FILE, LARGEST >> 4).decode("utf-8"))
        except FileNotFoundError:
            raise UsageError(f"{path} is not a case: it has no case.toml.") from None
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(f"{path}/case.toml cannot be read ({error}); collect the case anew.") from error
        if isinstance(data.get("schema"), int) and data["schema"] > SCHEMA:
            raise UsageError(
                f"{path} was written by a newer repro-kit (schema {data['schema']}, this one knows {SCHEMA}); upgrade."
            )
        check_tree(path)
        try:
            return cls(path, from_data(data, CaseFile))
        except ValueError as error:
            raise UsageError(f"{path}/case.toml is damaged or incomplete; collect the case anew.") from error

    @property
    def is_there(self) -> bool:
        """Whether the case is still on disk: the user's script may remove it."""
        return (self.path / CASE_FILE).is_file()

    @property
    def is_own(self) -> bool:
        """Whether this user made this very directory on this machine, or agreed to run its command."""
        return is_marked(self.path, self._asked)

    def accept(self) -> None:
        """Record that this user made the case, or agreed to run its command."""
        mark = mark_of(self.path, self._asked)
        if mark:
            write_atomic(self.path / OWNER_FILE, mark.encode())

    @property
    def _asked(self) -> str:
        """What the user agrees to: the command, its directory, and its interpreter."""
        return json.dumps(to_data(self.file.subject), sort_keys=True)

    def save(self) -> None:
        """Write `case.toml`."""
        write_atomic(self.path / CASE_FILE, tomli_w.dumps(_without_none(to_data(self.file))).encode())

    def update(self, **changes: Any) -> None:
        """Replace fields of `case.toml` and save it."""
        self.file = replace(self.file, **changes)
        self.save()

    def record(self, stage: StageRecord) -> None:
        """Record the end of a stage, in place of an earlier record."""
        kept = tuple(earlier for earlier in self.file.stages if earlier.name != stage.name)
        self.update(stages=(*kept, stage))

    def stage(self, name: str) -> StageRecord | None:
        """The record of stage `name`; None when the stage has not run."""
        return next((stage for stage in self.file.stages if stage.name == name), None)

    def about(self, stage: str) -> str:
        """A digest of what a result of `stage` depends on: the failure, the command, and the captured program.

        Empty for observe, which finds the failure.
        """
        if stage == STAGES[0]:
            return ""
        file = self.file
        parts: list[Any] = [file.signature and to_data(file.signature), file.failure_index, to_data(file.subject)]
        captured = self.stage("capture") if stage in _OF_THE_PROGRAM else None
        program = self.path / "capture" / "program.py"
        if captured is not None and captured.status == "done" and program.is_file():
            parts.append(hashlib.sha256(program.read_bytes()).hexdigest())
        return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:24]

    def is_current(self, stage: str) -> bool:
        """Whether `stage` is done, and its result is about the failure that this case is about now."""
        record = self.stage(stage)
        return record is not None and record.status == "done" and record.about in ("", self.about(stage))

    def current(self, file: ResultFile[T]) -> T | None:
        """The content of `file`; None if the stage failed, was left out, or was about another failure."""
        return self.load(file) if self.is_current(file.stage) and self.holds(file) else None

    def load(self, file: ResultFile[T]) -> T:
        """The content of `file`, even if it is stale. Raises UsageError when the file is missing or damaged."""
        return self.read(file.name, file.cls, remedy=f"run `repro-kit {file.stage} {self.path}`")

    def store(self, file: ResultFile[T], value: T) -> Path:
        """Write `value` to `file`."""
        return self.write(file.name, value)

    def holds(self, file: ResultFile[T]) -> bool:
        """Whether `file` exists, even if it is stale."""
        return self.has(file.name)

    def write(self, name: str, value: Any) -> Path:
        """Write a dataclass as JSON to `name` within the case."""
        path = self.path / name
        write_atomic(path, dumps(value))
        return path

    def read(self, name: str, cls: type[T], *, remedy: str = "run the stage again that writes it") -> T:
        """Read JSON file `name` as `cls`. Raises UsageError when it is missing or damaged."""
        path = self.path / name
        try:
            return from_data(orjson.loads(read_plain(path, LARGEST)), cls)
        except FileNotFoundError:
            raise UsageError(f"{path} is missing; {remedy}.") from None
        except (OSError, ValueError) as error:
            raise UsageError(f"{path} is damaged; {remedy}.") from error

    def has(self, name: str) -> bool:
        """Whether file `name` exists."""
        return (self.path / name).exists()


def _without_none(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _without_none(value) for key, value in data.items() if value is not None}
    if isinstance(data, list | tuple):
        return [_without_none(value) for value in data]
    return data


LOCK = ".lock"

#: Seconds to wait for the lock, and between two tries. A process that is killed while it starts another one leaves the
#: lock to that one, which drops the lock soon.
_PATIENCE, _PAUSE = 1.0, 0.05

#: Directories that this process has locked already: it may enter them again.
_ours: set[Path] = set()


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the lock of the directory `directory`, which must exist.

    Raises UsageError when another process holds the lock, or when the directory cannot be written; nothing has changed
    then.
    """
    real = directory.resolve()
    if real in _ours:
        yield
        return
    try:
        descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UsageError(
            f"Cannot write {directory}: {error.strerror}; make it writable, or choose another place with --output."
        ) from error
    try:
        _lock(descriptor, directory)
        _ours.add(real)
        yield
    finally:
        _ours.discard(real)
        os.close(descriptor)


def _lock(descriptor: int, directory: Path) -> None:
    until = time.monotonic() + _PATIENCE
    try:
        while not _try(descriptor):
            if time.monotonic() > until:
                raise UsageError(f"Another repro-kit is working on {directory}; wait for it, or use --output.")
            time.sleep(_PAUSE)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):  # a file system without locks
            raise


def _try(descriptor: int) -> bool:
    """Take the lock if no other process holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


_STARTS = "starts.jsonl"


@dataclass(frozen=True)
class Start:
    """One start of the user's command, a line of `starts.jsonl`: when (seconds since the epoch), and why."""

    time: float
    why: str


def note_start(case: Case, why: str) -> None:
    """Note a start that is about to be made."""
    line = orjson.dumps(to_data(Start(round(time.time(), 3), why)), option=orjson.OPT_APPEND_NEWLINE)
    with (case.path / _STARTS).open("ab", buffering=0) as file:
        file.write(line)


def starts(case: Case) -> tuple[Start, ...]:
    """The starts so far; damaged lines are left out."""
    try:
        lines = (case.path / _STARTS).read_bytes().splitlines()
    except FileNotFoundError:
        return ()
    return tuple(start for line in lines if (start := _start(line)) is not None)


def _start(line: bytes) -> Start | None:
    try:
        return from_data(orjson.loads(line), Start)
    except (ValueError, TypeError):
        return None


_HASHED = 64 << 20  # bytes: larger files of the command are not checked for changes


def command_files(case: Case) -> list[str]:
    """``NAME:DIGEST`` for each file of at most 64 MiB that is named on the command line."""
    fingerprints = []
    for word in case.file.subject.argv:
        path = Path(case.file.subject.cwd) / word
        with suppress(OSError, ValueError):
            if path.is_file() and path.stat().st_size <= _HASHED:
                fingerprints.append(f"{path.name}:{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}")
    return fingerprints
