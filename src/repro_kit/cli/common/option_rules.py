"""Declares every option of every command, and which files may set it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Source(Enum):
    """The least trusted source that may set an option. The command line may set every option."""

    PROJECT = "the project's pyproject.toml, or the user's configuration"
    USER = "the user's configuration"
    COMMAND = "the command line"


@dataclass(frozen=True)
class OptionRule:
    """Where an option may be set. `kind`: type of the value in a file. `does`: why a project may not set it."""

    source: Source
    kind: type | None = None
    does: str = ""
    announced: bool = False  # a value from a file is announced on stderr


def _project(kind: type, *, announced: bool = False) -> OptionRule:
    return OptionRule(Source.PROJECT, kind, announced=announced)


def _user(kind: type, does: str) -> OptionRule:
    return OptionRule(Source.USER, kind, does, announced=True)


def _command(does: str = "is given anew with each command") -> OptionRule:
    return OptionRule(Source.COMMAND, does=does)


_RUNS = "chooses what is run"
_SHOWS = "chooses what the bundle shows of the program"
_SENDS = "sends something away"
_WRITES = "chooses where files are written"
_INSTALLS = "chooses what is installed"

#: Every option, by its long name.
SETTINGS: dict[str, OptionRule] = {
    # Harmless options that a project may know better than its user.
    "timeout": _project(float),
    "query-timeout": _project(float),
    "jobs": _project(int),
    "budget": _project(int),
    "deadline": _project(float),
    "logs": _project(str),
    "function": _project(str),
    "border": _project(str),
    "debug-artifacts": _project(bool),
    "check": _project(str),  # without a baseline, which names a backend, and that is code
    "output": _project(str, announced=True),  # within the project
    # Options that only the user may set in a file.
    "python": _user(str, _RUNS),
    "trace": _user(str, _SHOWS),
    "include-values": _user(bool, _SHOWS),
    "include-source": _user(bool, _SHOWS),
    "yes": _user(bool, "answers questions in the user's place"),
    # Options of one command line.
    "oracle": _command(_RUNS),
    "oracle-matches": _command(),
    "backend": _command(_RUNS),
    "axis": _command(_RUNS),
    "build": _command(_RUNS),
    "git": _command(_RUNS),
    "try": _command(_RUNS),
    "run": _command(_RUNS),
    "tlparse": _command(_RUNS),
    "open": _command(_SENDS),
    "gh": _command(_SENDS),
    "issue": _command(_SENDS),
    "comment": _command(_SENDS),
    "index-url": _command(_INSTALLS),
    "wheels": _command(_INSTALLS),
    "package": _command(_INSTALLS),
    "with": _command(_INSTALLS),
    "constraint": _command(_INSTALLS),
    "nightly": _command(_INSTALLS),
    "against-nightly": _command(_INSTALLS),
    "pre": _command(_INSTALLS),
    "releases": _command(_INSTALLS),
    "good": _command(_INSTALLS),
    "bad": _command(_INSTALLS),
    "farm": _command(_WRITES),
    "events": _command(_WRITES),
    "cache": _command(_WRITES),
    "html": _command(_WRITES),
    "perfetto": _command(_WRITES),
    "artifact": _command(_WRITES),
    "fresh": _command("removes a case"),
    "keep": _command(_WRITES),
    "cache-size": _command(),
    **dict.fromkeys(
        (
            *(
                "failure",
                "only",
                "until",
                "skip",
                "dry-run",
                "json",
                "quiet",
                "verbose",
                "compile-id",
                "history",
                "source",
            ),
            *("preset", "cross", "on", "repeat", "workarounds", "stop-early", "plan", "expect", "against", "markdown"),
            *("narrow", "no-narrow", "section", "list", "memory", "find-fix", "path", "all-parents", "on-timeout"),
            *("any-failure", "max-skips", "mark", "log", "repo", "offline", "no-bisect", "treat-rounding-as"),
            *("workers", "retry", "shard", "state", "executor", "spread"),
        ),
        _command(),
    ),
}
