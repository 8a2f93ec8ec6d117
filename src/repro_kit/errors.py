"""Errors that users see, and exit codes; and how a stage ends the pipeline early."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any


class Exit(IntEnum):
    """Exit codes; `docs/reference/exit-codes.md` explains them to users."""

    OK = 0  # done; for `collect` and `bundle`: a verified bundle was written
    FAILED = 1  # `verify`: the repro fails, but differently; other commands: the stage could not do its work
    USAGE = 2  # bad input; nothing was changed
    NOTHING_FAILED = 3
    USER_BUG = 4  # the subject fails in eager too
    UNVERIFIED = 5  # a bundle was written, but its repro did not fail as expected, or lacks the source files it runs
    ROUNDING = 6  # results differ, and eager's own rounding explains that: no bug
    CANNOT_RUN = 125  # "GPU only"; `verify`: this machine cannot run the subject (`git bisect run` skips on this code)
    INTERRUPTED = 130


class ReproKitError(Exception):
    """A problem that the user can solve: one sentence that names the problem and the remedy, without a traceback.

    `data`: further keys of what `--json` prints of it.
    """

    def __init__(self, message: str, exit_code: Exit, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.data: Mapping[str, Any] = data or {}


class OutputLost(BrokenPipeError):
    """What repro-kit prints cannot be written: its reader has gone, or the disk or device is full."""


class UsageError(ReproKitError):
    """Bad input: the command was refused, and nothing was changed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.USAGE)


class StageError(ReproKitError):
    """A stage or a step could not do its work. Earlier results are kept."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.FAILED)


class CannotRunError(ReproKitError):
    """This machine, interpreter or build cannot run what the user asked for."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.CANNOT_RUN)


class Stop(Exception):
    """Ends the pipeline: `sentence` says why, and the command exits with `exit_code`."""

    def __init__(self, exit_code: Exit, sentence: str) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
        self.sentence = sentence
