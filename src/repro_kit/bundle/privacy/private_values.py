"""Private values by their origin, whatever they look like: environment, command line, names of the machine."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from repro_kit.bundle.privacy.credential_patterns import is_random, random_segments
from repro_kit.bundle.privacy.redact import Redactor
from repro_kit.bundle.privacy.secret_scan import Secret
from repro_kit.bundle.privacy.vocabulary import Vocabulary, is_allowed, is_secret, is_systems
from repro_kit.case.stage_results import GitState

_LONG = re.compile(r"(--[A-Za-z][\w.-]*)(=?)(.*)", re.DOTALL)
_SHORT_OPTION = re.compile(r"(-[A-Za-z])(=?)(.*)", re.DOTALL)
_ASSIGNED = re.compile(r"(\+{0,2}[A-Za-z_][\w.@/-]*=)(.+)", re.DOTALL)
#: A Python file, perhaps with the test in it; never one out of another directory tree.
_PYTHON_FILE = re.compile(r"(?!\.\.)[\w.-]+(?:/[\w.-]+)*\.py(?:::\w+)*")
_PLAIN_VALUE = re.compile(
    r"[-+]?\d{1,8}(?:\.\d*)?(?:e[-+]?\d+)?|[-+]?\d*\.\d+(?:e[-+]?\d+)?|true|false|none|yes|no|on|off", re.I
)
_FEW = 4  # letters that short options of one letter are joined to (``-xvs``)


@dataclass(frozen=True)
class Part:
    """One argument: the text that is shown, the value that follows, and the option of that value."""

    shown: str
    value: str = ""
    option: str = ""
    secret: bool = False  # by the option's name
    code: bool = False  # the value is a program (``python -c``)


def parts_of(words: Iterable[str]) -> Iterator[Part]:
    """The parts of each of `words`, which are the arguments after the program's name."""
    option = ""  # an option without its value so far
    for word in words:
        part = _part(word, option)
        option = word if word.startswith("-") and not part.value else ""
        yield part


def _part(word: str, before: str) -> Part:
    if before == "-m" and re.fullmatch(r"[\w.]+", word):
        return Part(word)  # a program's name
    if before == "-c" and "import " in word:
        return Part("", word, before, code=True)
    for pattern in (_LONG, _SHORT_OPTION):
        match = pattern.fullmatch(word)
        if match and (match[2] or pattern is _LONG):
            return Part(match[1] + match[2], match[3], match[1], _names_secret(match[1])) if match[2] else _name(word)
    if _SHORT_OPTION.fullmatch(word):
        letters = word[1:]
        is_name = len(set(letters)) == 1 or (letters.isalpha() and len(letters) <= _FEW)
        return Part(word) if is_name else Part(word[:2], word[2:], word[:2])
    match = _ASSIGNED.fullmatch(word)
    if match:
        return Part(match[1], match[2], match[1].rstrip("="), _names_secret(match[1]))
    if word in ("-", "--") or _PYTHON_FILE.fullmatch(word):
        return Part(word)
    return Part("", word, before, _names_secret(before))


def _name(word: str) -> Part:
    """A long option. A word with other characters than letters, digits and dashes is a value."""
    return Part(word) if re.fullmatch(r"--[A-Za-z][\w.-]*", word) else Part("--", word[2:])


def _names_secret(option: str) -> bool:
    return is_secret(option.strip("-+=").replace("-", "_").replace(".", "_"))


def is_harmless(part: Part, vocabulary: Vocabulary) -> bool:
    """Whether the value of `part` is on the allow-list: a number, a truth value, a word of torch."""
    plain = _PLAIN_VALUE.fullmatch(part.value) is not None or vocabulary.what(part.value) == "torch"
    return plain and not part.secret


_SHORTEST = 4
_SHORTEST_ARGUMENT = 16
_SHORTEST_NUMBER = 6
_MOST_FILES = 400  # changed files whose names are searched for; each costs time in every text
_PATHS = re.compile(r"~?/[^:]*(:~?/[^:]*)*:?|[A-Za-z]:\\.*")
_SHORT, _NUMBER = "too short to tell from other text", "a number"
_OBVIOUS = (_SHORT, _NUMBER, "a word of every machine")  # reasons that need no explanation
#: A password may begin with a slash. Where a password is expected, a path must have several plain parts.
_PATH_FOR_SURE = re.compile(r"~?(?:/[\w.@+-]+){2,}/?|/(?:usr|tmp|opt|home|root|var|etc|mnt|dev)?/?")
_VARIABLE, _ARGUMENT, _GIT = "environment variable", "argument", "git"


@dataclass(frozen=True)
class Private:
    """A private value. `secret`: its origin marks it as a secret, so even a common word is replaced."""

    value: str
    kind: str
    origin: str  # the variable or option; shown only in the user's own terminal
    secret: bool = False


def variables(env: Mapping[str, str]) -> Iterator[Private]:
    """Values of the variables that a report does not show."""
    for name, value in sorted(env.items()):
        secret = is_secret(name)
        if not is_allowed(name) and not _is_path(value, secret=secret) and (secret or not is_systems(name)):
            yield Private(value, _VARIABLE, name, secret)


def arguments(words: Iterable[str], *, every: bool = True) -> Iterator[Private]:
    """Values among the arguments: secrets by the option's name or their look, or with `every`, all values."""
    for part in parts_of(words):
        secret = part.secret or _is_random_argument(part.value)
        if not part.value or part.code or not (secret or every):
            continue
        if not _is_path(part.value, secret=secret):
            yield Private(part.value, _ARGUMENT, part.option or "a word of the command", secret)
        yield from _pieces(part.value, r"[:@,;=/\\\s]+", _ARGUMENT)


def _is_path(value: str, *, secret: bool) -> bool:
    """Whether `value` is a path; directories are replaced separately."""
    return (_PATH_FOR_SURE if secret else _PATHS).fullmatch(value) is not None


def directories(paths: Iterable[str]) -> Iterator[Private]:
    """Names of working directories: a project's name is often a customer's name."""
    for path in dict.fromkeys(paths):
        name = re.split(r"[/\\]", path.rstrip("/\\"))[-1]
        if name:
            yield Private(name, "name of a directory", path)


def of_repository(git: GitState | None, own: Collection[str]) -> Iterator[Private]:
    """Names that identify the repository and its unpublished changes. Names of `own` files are shown."""
    if git is None:
        return
    if git.branch:
        yield Private(git.branch, f"{_GIT} branch", "the branch")
        yield from _pieces(git.branch, "/", f"{_GIT} branch")
    for remote in git.remotes:
        host, path = _host_and_path(remote)
        yield Private(host, f"{_GIT} remote", "the remote's host")
        yield Private(path, f"{_GIT} remote", "the remote's repository")
        yield from _pieces(path, "/", f"{_GIT} remote")
    for name in git.dirty[:_MOST_FILES]:
        for part in name.rpartition(" -> ")[2].strip('"').split("/"):
            for piece in dict.fromkeys((part, part.partition(".")[0])):
                if piece and part not in own:
                    yield Private(piece, "name of a changed file", "")


def _pieces(value: str, separators: str, kind: str) -> Iterator[Private]:
    """The parts of `value`, which may occur separately. Parts that stay are not reported."""
    for piece in re.split(separators, value):
        if piece and piece != value:
            yield Private(piece, kind, "")


def _host_and_path(remote: str) -> tuple[str, str]:
    """Host and path of ``https://host/owner/name.git`` or ``git@host:owner/name.git``; a local path has no host."""
    if "://" in remote:
        parts = urlsplit(remote)
        host, path = parts.hostname or "", parts.path
    elif ":" in remote.partition("/")[0]:
        host, path = remote.rpartition("@")[2].partition(":")[::2]
    else:
        host, path = "", remote
    return host, path.strip("/").removesuffix(".git")


def teach(redactor: Redactor, values: Iterable[Private]) -> None:
    """Let `redactor` replace the private `values`, and record which ones it keeps and why."""
    replaced: list[Private] = []
    for private in values:
        if not private.value:  # a variable may be set to nothing
            continue
        reason = _reason_to_keep(private, redactor)
        if not reason:
            replaced.append(private)
        elif private.origin and (private.secret or reason not in _OBVIOUS):
            redactor.keep(private.value, private.kind, private.origin, reason)
    for secret in (True, False):
        secrets = [
            Secret(private_value.value, private_value.kind)
            for private_value in replaced
            if (private_value.secret or is_random(private_value.value)) is secret
        ]
        redactor.add(secrets, as_names=not secret)


def _reason_to_keep(private: Private, redactor: Redactor) -> str:
    """Why `private` stays; empty if it is replaced."""
    value, words = private.value, redactor.vocabulary
    word_of = words.what(value)
    if word_of:
        return f"a word of {word_of}"
    if len(value) < _SHORTEST or (value.isdigit() and len(value) < _SHORTEST_NUMBER):
        return _SHORT
    if value in redactor.allowed:
        return "stands in the description of the environment or the recipe"
    if private.secret or not words.is_common(value):
        return ""
    return _NUMBER if words.is_number(value) else "a common word"


def _is_random_argument(value: str) -> bool:
    return bool(random_segments(value)) or (len(value) >= _SHORTEST_ARGUMENT and is_random(value) and "/" not in value)
