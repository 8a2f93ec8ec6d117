"""Where a case lies on disk, and whether the one that is there already is about the same thing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from repro_kit.bundle.archive.archive import FORMS
from repro_kit.case.case import CASE_FILE, Case, Subject
from repro_kit.case.lock import LOCK, alone
from repro_kit.errors import ReproKitError, UsageError
from repro_kit.probe.repro_probe.protocol.watched_data import OWNER_FILE
from repro_kit.runner.subject_start import command

_SUFFIX = ".repro"


def case_path(subject: Subject, output: str | None, failure: int = 0) -> Path:
    """`output` (a case, its bundle, or a directory to put it in), else ``./NAME.repro`` after the subject.

    A failure other than the first one gets a case of its own: ``./NAME-1.repro``.
    """
    name = stem(subject) + (f"-{failure}" if failure else "") + _SUFFIX
    if output is None:
        return Path(name)
    path = Path(output)
    if _form(output):
        return path.with_name(path.name.removesuffix(_form(output)))
    inside = output.endswith(os.sep) or (path.is_dir() and not is_case(path) and not _is_begun(path))
    return path / name if inside else path


def program_place(path: Path, output: str | None) -> Path:
    """Like `case_path`, for the program in the file or trace at `path`."""
    return case_path(Subject("script", (str(path.absolute()),), "", ""), output)


def bundle_path(case: Path, output: str | None = None) -> Path:
    """The archive that belongs to the case at `case`, of the form that the name `output` asks for."""
    return case.with_name(case.name + (_form(output or "") or FORMS[0]))


def _form(name: str) -> str:
    """``.zip``, ``.tar.gz`` …: the end of an archive's name; empty for any other."""
    return next((form for form in FORMS if name.endswith(form)), "")


def is_case(path: Path) -> bool:
    """Whether a case is at `path`, damaged or not."""
    return (path / CASE_FILE).is_file()


def stem(subject: Subject) -> str:
    """A short name for the subject: the script's, the module's, or that of the first Python file of a command."""
    first = subject.argv[0]
    if subject.form == "module":
        return first.removesuffix(".__main__").rpartition(".")[2]
    if subject.form == "command":
        files = [word.partition("::")[0] for word in subject.argv[1:]]
        first = next((word for word in files if word.endswith(".py")), first)
    return Path(first).stem or "case"


@contextmanager
def open_case(path: Path, subject: Subject, failure: int, *, fresh: bool) -> Iterator[tuple[Case, bool]]:
    """The case for failure number `failure` of `subject` at `path`, locked, and whether it was there before.

    Raises ReproKitError when something else is there, another process is at work on it, or it cannot be written;
    nothing has changed then.
    """
    _look(path, subject, failure, fresh)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"Cannot write the case {path}: {error.strerror}; choose another place with --output."
        ) from error
    with alone(path):
        known = _look(path, subject, failure, fresh)  # it may have been made meanwhile
        if known is not None:
            yield known, True
            return
        # First of all, so that a kill while the rest goes leaves a case that has nothing done.
        case = Case.create(path, subject, datetime.now(UTC).isoformat(timespec="seconds"), failure)
        _remove_others(path)
        yield case, False


def _look(path: Path, subject: Subject, failure: int, fresh: bool) -> Case | None:
    """The case at `path`; None where there is none, or a fresh one is to take its place."""
    if not is_case(path):
        if path.is_dir() and not _is_begun(path):
            raise UsageError(f"{path} is there already and is no case; choose another place with --output.")
        return None
    if fresh:
        return None
    case = Case.open(path)
    if not os.access(path, os.W_OK):
        raise UsageError(f"Cannot write the case {path}; choose another place with --output.")
    known = case.file.subject
    if (known.form, known.argv, known.cwd) != (subject.form, subject.argv, subject.cwd):
        raise _other(path, f"another command (`{' '.join(command(known))}` in {known.cwd})")
    if known.python != subject.python:
        raise _other(path, f"another interpreter ({known.python})")
    if case.file.failure_index != failure:
        raise _other(path, f"failure {case.file.failure_index} of this command")
    return case


def _is_begun(path: Path) -> bool:
    """Whether there is nothing in a directory but what a kill leaves of a case that was about to be made."""
    return all(
        entry.name.startswith((f".{CASE_FILE}.", OWNER_FILE, f".{OWNER_FILE}.", LOCK)) for entry in path.iterdir()
    )


def _other(path: Path, what: str) -> ReproKitError:
    return UsageError(f"{path} is about {what}; choose another place with --output, or start anew with --fresh.")


def _remove_others(path: Path) -> None:
    """Remove all of the old case but its lock, which is held, and what is new."""
    try:
        for entry in path.iterdir():
            if entry.name in (LOCK, CASE_FILE, OWNER_FILE):
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
    except OSError as error:
        raise UsageError(f"Cannot remove the old case {path}: {error.strerror}.") from error
