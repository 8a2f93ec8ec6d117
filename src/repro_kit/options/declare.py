"""Declare an option as a field of a dataclass: its type, default, help and heading, and who may set it.

click alone makes the options of the command line from that: no other library reads the types, so that help texts, error
sentences and the time to start stay as they are.
"""

# No `from __future__ import annotations`: the types of the fields are read.
import types
from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields, replace
from enum import Enum
from typing import Any, get_args, get_origin

_KEY = "option"


class Source(Enum):
    """The least trusted source that may set an option. The command line may set every option."""

    PROJECT = "the project's pyproject.toml, or the user's configuration"
    USER = "the user's configuration"
    COMMAND = "the command line"


@dataclass(frozen=True)
class Rule:
    """Who may set an option. `does`: why a project may not set it."""

    source: Source = Source.COMMAND
    does: str = "is given anew with each command"
    announced: bool = False  # a value from a file is announced on stderr
    harmless: tuple[Any, ...] = ()  # values that reveal less than the default does; a project may set these


_SHOWS = "chooses what the bundle shows of the program"
#: A harmless option that a project may know better than its user.
PROJECT = Rule(Source.PROJECT, "")
PROJECT_PATH = replace(PROJECT, announced=True)
#: Options that only the user may set in a file.
USER_RUNS = Rule(Source.USER, "chooses what is run", announced=True)
USER_SHOWS = Rule(Source.USER, _SHOWS, announced=True, harmless=(False, "no"))
USER_ANSWERS = Rule(Source.USER, "answers questions in the user's place", announced=True, harmless=(False,))
#: Options of one command line.
ANEW = Rule()
RUNS = Rule(does="chooses what is run")
SENDS = Rule(does="sends something away")
WRITES = Rule(does="chooses where files are written")
INSTALLS = Rule(does="chooses what is installed")
REMOVES = Rule(does="removes a case")


@dataclass(frozen=True)
class Option:
    """One option. `name` and `type` are those of its field."""

    flags: tuple[str, ...]
    default: Any
    help: str
    shown: str = ""  # the default in words
    metavar: str | None = None
    heading: str = ""
    rule: Rule = ANEW
    agents: bool = False  # the tools for agents have it
    choices: tuple[str, ...] = ()
    initial: Any = None  # the value on a command line that does not give the option
    least: int = 1  # of a whole number
    counted: bool = False  # the value is how often the option is given
    check: Callable[[Any], object] | None = None  # raises ReproKitError for a value that means nothing
    more: str = ""  # what the reference adds to the help
    name: str = ""
    type: Any = None

    @property
    def long(self) -> str:
        """The long name, without its hyphens."""
        return next(flag for flag in self.flags if flag.startswith("--")).split("/")[0].removeprefix("--")

    @property
    def many(self) -> bool:
        """Whether the option may be repeated."""
        return get_origin(self.type) is tuple

    @property
    def kind(self) -> Any:
        """The type of one value."""
        if self.many or isinstance(self.type, types.UnionType):
            return get_args(self.type)[0]
        return self.type

    @property
    def text(self) -> str:
        """The help, with the default."""
        return f"{self.help}  [default: {self.shown}]" if self.shown else self.help


def option(names: str, help: str, default: Any = None, **settings: Any) -> Any:
    """A field that is an option: its `names`, and the name of its value if it has one (``-j --jobs N``).

    `settings`: of `Option`. Without a value, it is a flag, which is off by default. Without `shown`, the help has the
    default as it is. Without `initial`, a command line without the option gives the default.
    """
    flags = tuple(word for word in names.split() if word.startswith("-"))
    metavar = names.removeprefix(" ".join(flags)).strip() or None
    if default is None and not metavar and not settings.get("choices"):
        default = False
    shown = f"{default:g}" if isinstance(default, float) else str(default or "")
    made = Option(flags, default, help, **{"metavar": metavar, "shown": shown, "initial": default, **settings})
    return field(default=default, metadata={_KEY: made})


def again(cls: Any, name: str, **changes: Any) -> Any:
    """The option `name` of `cls` once more, in another class, with `changes`."""
    made: Option = next(each for each in options_of(cls) if each.name == name)
    return field(default=made.default, metadata={_KEY: replace(made, **changes)})


def options_of(*classes: Any) -> list[Option]:
    """The options that `classes` declare, in their order; each name once."""
    found: dict[str, Option] = {}
    for each in (each for cls in classes for each in fields(cls) if _KEY in each.metadata):
        found.setdefault(each.name, _bound(each))
    return list(found.values())


def _bound(each: Field[Any]) -> Option:
    made: Option = each.metadata[_KEY]
    return replace(made, name=each.name, type=each.type)
