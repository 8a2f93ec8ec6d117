"""Who may set which option: the one declaration of every option of every command."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Source(Enum):
    """The furthest place that may set an option; the command line always may."""

    PROJECT = "the project's pyproject.toml, or the user's configuration"
    USER = "the user's configuration"
    COMMAND = "the command line"


@dataclass(frozen=True)
class Setting:
    """Where an option may be set; `kind` is the type of its value in a file, `does` what a project has no say in."""

    source: Source
    kind: type | None = None
    does: str = ""
    announced: bool = False  # a value from a file is told on stderr


def _project(kind: type, *, announced: bool = False) -> Setting:
    return Setting(Source.PROJECT, kind, announced=announced)


def _user(kind: type, does: str) -> Setting:
    return Setting(Source.USER, kind, does, announced=True)


def _command(does: str = "is about one command") -> Setting:
    return Setting(Source.COMMAND, does=does)


_RUNS = "chooses what is run"
_SHOWS = "chooses what the bundle shows of the program"
_SENDS = "sends something away"
_WRITES = "chooses where files are written"
_INSTALLS = "chooses what is installed"

#: Every option, by its long name.
SETTINGS: dict[str, Setting] = {
    # What a project may know better than its user, and what does no harm.
    "timeout": _project(float),
    "query-timeout": _project(float),
    "jobs": _project(int),
    "budget": _project(int),
    "deadline": _project(float),
    "logs": _project(str),
    "function": _project(str),
    "border": _project(str),
    "debug-artifacts": _project(bool),
    "check": _project(str),  # without a baseline: that one names settings, and a backend, which is code
    "output": _project(str, announced=True),  # within the project
    # What only the user may decide once and for all.
    "python": _user(str, _RUNS),
    "trace": _user(str, _SHOWS),
    "include-values": _user(bool, _SHOWS),
    "yes": _user(bool, "answers questions in the user's place"),
    # What belongs to one command.
    "oracle": _command(_RUNS),
    "oracle-matches": _command(),
    "backend": _command(_RUNS),
    "axis": _command(_RUNS),
    "build": _command(_RUNS),
    "git": _command(_RUNS),
    "try": _command(_RUNS),
    "tlparse": _command(_RUNS),
    "open": _command(_SENDS),
    "gh": _command(_SENDS),
    "index-url": _command(_INSTALLS),
    "wheels": _command(_INSTALLS),
    "package": _command(_INSTALLS),
    "with": _command(_INSTALLS),
    "constraint": _command(_INSTALLS),
    "nightly": _command(_INSTALLS),
    "against-nightly": _command(_INSTALLS),
    "pre": _command(_INSTALLS),
    "good": _command(_INSTALLS),
    "bad": _command(_INSTALLS),
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
            *("failure", "only", "until", "skip", "dry-run", "json", "quiet", "verbose", "compile-id", "history"),
            *("preset", "cross", "on", "repeat", "workarounds", "stop-early", "plan", "expect", "against", "markdown"),
            *("narrow", "no-narrow", "section", "list", "memory", "find-fix", "path", "all-parents", "on-timeout"),
            *("any-failure", "max-skips", "mark", "log", "repo", "offline", "no-bisect"),
        ),
        _command(),
    ),
}
