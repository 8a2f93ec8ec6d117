"""The path of a case on disk, whether an existing case there is about the same subject, and its options."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

from repro_kit.bundle.archive.archive import FORMS
from repro_kit.case.case import CASE_FILE, LOCK, Case, Subject, locked
from repro_kit.errors import ReproKitError, UsageError
from repro_kit.options.stages import (
    AblateOptions,
    BundleOptions,
    CaptureOptions,
    MinifyOptions,
    ObserveOptions,
    Options,
)
from repro_kit.probe.repro_probe.protocol.findings import OWNER_FILE
from repro_kit.runner.subject_start import command
from repro_kit.serialize import plain
from repro_kit.subject.subject_check import rank_subject

_SUFFIX = ".repro"
#: In a case: what was checked of a bundle that lacks the user's source files, with these files.
CHECKED = "checked"


def case_path(subject: Subject, output: str | None, failure: int = 0) -> Path:
    """The path of the case: `output` if given, else ``./NAME.repro``, named after the subject.

    `output` names a case, the bundle of a case, or the directory for the case. A failure other than the first one gets
    its own case: ``./NAME-1.repro``.
    """
    name = stem(subject) + (f"-{failure}" if failure else "") + _SUFFIX
    if output is None:
        return Path(name)
    path = Path(output)
    if _form(output):
        return path.with_name(path.name.removesuffix(_form(output)))
    inside = output.endswith(os.sep) or (path.is_dir() and not is_case(path) and not _is_begun(path))
    return path / name if inside else path


def program_case_path(path: Path, output: str | None) -> Path:
    """Like `case_path`, for the program in the file or trace at `path`."""
    return case_path(Subject("script", (str(path.absolute()),), "", ""), output)


def bundle_path(case: Path, output: str | None = None) -> Path:
    """The path of the archive of the case at `case`, in the format that the name `output` asks for."""
    return case.with_name(case.name + (_form(output or "") or FORMS[0]))


def _form(name: str) -> str:
    """The suffix of an archive's name (``.zip``, ``.tar.gz`` …); empty if `name` is not an archive."""
    return next((form for form in FORMS if name.endswith(form)), "")


def is_case(path: Path) -> bool:
    """Whether there is a case at `path`, damaged or not."""
    return (path / CASE_FILE).is_file()


def stem(subject: Subject) -> str:
    """A short name for the subject: the name of the script, the module, or the first Python file of a command.

    That of a launcher of ranks is the name of what each rank runs.
    """
    subject = rank_subject(subject)
    first = subject.argv[0]
    if subject.form == "module":
        return first.removesuffix(".__main__").rpartition(".")[2]
    if subject.form == "command":
        files = [word.partition("::")[0] for word in subject.argv[1:]]
        first = next((word for word in files if word.endswith(".py")), first)
    return Path(first).stem or "case"


@contextmanager
def locked_case(path: Path, subject: Subject, failure: int, *, fresh: bool) -> Iterator[tuple[Case, bool]]:
    """Lock the case for failure number `failure` of `subject` at `path`; yields it, and whether it existed before.

    Raises ReproKitError, with nothing changed, when `path` holds something else, when another process works on the
    case, and when the case cannot be written.
    """
    _look(path, subject, failure, fresh)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"Cannot write the case {path}: {error.strerror}; choose another place with --output."
        ) from error
    with locked(path):
        existing = _look(path, subject, failure, fresh)  # another process may have made the case meanwhile
        if existing is not None:
            yield existing, True
            return
        # Created before the old files are removed: after a kill in between, the case is a new one without results.
        case = Case.create(path, subject, datetime.now(UTC).isoformat(timespec="seconds"), failure)
        _remove_others(path)
        yield case, False


def _look(path: Path, subject: Subject, failure: int, fresh: bool) -> Case | None:
    """The case at `path`; None if there is none, or if a fresh case is to replace it."""
    if not is_case(path):
        if path.is_dir() and not _is_begun(path):
            raise UsageError(f"{path} exists and is not a case; choose another place with --output.")
        return None
    if fresh:
        return None
    case = Case.open(path)
    if not os.access(path, os.W_OK):
        raise UsageError(f"Cannot write the case {path}; choose another place with --output.")
    existing = case.file.subject
    if (existing.form, existing.argv, existing.cwd) != (subject.form, subject.argv, subject.cwd):
        raise _other(path, f"another command (`{' '.join(command(existing))}` in {existing.cwd})")
    if existing.python != subject.python:
        raise _other(path, f"another interpreter ({existing.python})")
    if case.file.failure_index != failure:
        raise _other(path, f"failure {case.file.failure_index} of this command")
    return case


def _is_begun(path: Path) -> bool:
    """Whether a directory holds nothing but the first files of a case whose creation was killed."""
    return all(
        entry.name.startswith((f".{CASE_FILE}.", OWNER_FILE, f".{OWNER_FILE}.", LOCK)) for entry in path.iterdir()
    )


def _other(path: Path, subject_words: str) -> ReproKitError:
    return UsageError(
        f"{path} is about {subject_words}; choose another place with --output, or start anew with --fresh."
    )


def _remove_others(path: Path) -> None:
    """Remove the files of the old case, except the lock, which this process holds, and the new files."""
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


_FILE = "options.json"


def write_options(case: Case, options: Options) -> None:
    """Write `options` to the case."""
    case.write(_FILE, {name: value for part in fields(options) for name, value in plain(options.of(part.name)).items()})


def read_options(case: Case) -> Options | None:
    """The options in the case; None if it has none. Raises ReproKitError when the file is damaged."""
    if not case.has(_FILE):
        return None
    return Options(
        case.read(_FILE, ObserveOptions),
        case.read(_FILE, CaptureOptions),
        case.read(_FILE, AblateOptions),
        case.read(_FILE, MinifyOptions),
        case.read(_FILE, BundleOptions),
    )
