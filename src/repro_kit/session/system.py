"""Signals and errors of the operating system, as sentences and as exit codes."""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from repro_kit.errors import ReproKitError, StageError, UsageError


@contextmanager
def interruptible() -> Iterator[None]:
    """Within this block, SIGTERM and SIGHUP act like Ctrl-C: children are killed, and the case stays valid."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with _handling({signal.SIGTERM: interrupt, signal.SIGHUP: interrupt}):
        yield


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore SIGINT, SIGTERM and SIGHUP within this block."""
    with _handling(dict.fromkeys((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), signal.SIG_IGN)):
        yield


@contextmanager
def _handling(handlers: Mapping[signal.Signals, Any]) -> Iterator[None]:
    """Install `handlers` within this block. Ignored signals (`nohup`) stay ignored. Only the main thread has any."""
    previous: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number, handler in handlers.items():
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                previous[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


#: Errors of a file or a name that the user can mend. A missing file is not among them: a file of the user's is checked
#: before its use, and any other missing file is a fault of repro-kit.
_OF_A_FILE = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EIO),
    *(errno.ENXIO, errno.ETXTBSY, errno.ESTALE, errno.EBUSY, errno.ENOTEMPTY, errno.EEXIST, errno.EINVAL, errno.ENODEV),
)
_TOO_MANY = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
_LONGEST = 120  # characters of a name that is shown


def sentence_of(error: BaseException, path: Path) -> ReproKitError | None:
    """The sentence for `error` if the operating system refused something at `path`; else None."""
    if not isinstance(error, OSError):
        return None
    if full := disk_full(error, path):
        return full
    if error.errno in _TOO_MANY:
        return StageError(
            f"The machine has run out of a resource: {error.strerror}; close other programs, and try again."
        )
    if error.errno == errno.EFBIG:
        where = f" ({shown_name(error.filename)})" if error.filename is not None else ""
        return StageError(f"A file{where} would be larger than this shell allows; raise the limit (ulimit -f).")
    if error.errno in _OF_A_FILE and error.filename is not None:
        return UsageError(f"{shown_name(error.filename)} cannot be used: {error.strerror}.")
    return None


def removed(error: BaseException, case: Path) -> ReproKitError | None:
    """The sentence for files of the `case` that were removed while it was worked on; None for another `error`."""
    if not isinstance(error, FileNotFoundError) or error.filename is None:
        return None
    if not Path(os.path.abspath(os.fsdecode(error.filename))).is_relative_to(case.absolute()):  # noqa: PTH100 - it is gone
        return None
    return StageError(
        f"{shown_name(error.filename)} was removed while repro-kit worked on the case, perhaps by the script itself; "
        "choose another place for the case with --output."
    )


def disk_full(error: BaseException, path: Path) -> ReproKitError | None:
    """The sentence for a full disk or quota; None for another `error`. Errors of shutil carry it in their text only."""
    if not isinstance(error, OSError):
        return None
    texts = [os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT)]
    if error.errno in (errno.ENOSPC, errno.EDQUOT) or any(text in str(error) for text in texts):
        where = error.filename or path
        return StageError(f"The disk is full at {where}; free some space and run the same command again to go on.")
    return None


def shown_name(name: object) -> str:
    """The name of a file as short printable text for a sentence."""
    text = os.fsdecode(name) if isinstance(name, bytes) else str(name)
    text = text if text.isprintable() else repr(text)[1:-1]
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}…{text[-_LONGEST // 2 :]}"
