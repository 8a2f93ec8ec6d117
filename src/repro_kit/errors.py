"""The exit codes of every command, and the one exception type that carries them to the user."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes; `docs/reference/exit-codes.md` explains them to users."""

    OK = 0  # done; for `collect` and `bundle`: a verified bundle was written
    FAILED = 1  # `verify`: it fails, but differently; other commands: the stage could not do its work
    USAGE = 2  # bad input; nothing was changed
    NOTHING_FAILED = 3
    USER_BUG = 4  # the subject fails in eager too
    UNVERIFIED = 5  # a bundle was written, but its repro was not seen to fail
    CANNOT_RUN = 125  # `verify`: this machine cannot run the subject (the code `git bisect run` skips on)
    INTERRUPTED = 130


class ReproKitError(Exception):
    """A problem the user can act on: one sentence naming what is wrong and what to do, shown without a traceback."""

    def __init__(self, message: str, exit_code: Exit) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class UsageError(ReproKitError):
    """Bad input: the command was refused, and nothing was changed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.USAGE)


class StageError(ReproKitError):
    """A stage or a step could not do its work; what was done before is kept."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.FAILED)


class CannotRunError(ReproKitError):
    """This machine, this interpreter or this build cannot run what was asked for."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.CANNOT_RUN)
