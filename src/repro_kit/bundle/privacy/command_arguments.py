"""Split the arguments of a command into option names, which are shown, and values, which are private."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from repro_kit.bundle.privacy.vocabulary import Vocabulary
from repro_kit.model.variables import is_secret

_LONG = re.compile(r"(--[A-Za-z][\w.-]*)(=?)(.*)", re.DOTALL)
_SHORT = re.compile(r"(-[A-Za-z])(=?)(.*)", re.DOTALL)
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
    for pattern in (_LONG, _SHORT):
        match = pattern.fullmatch(word)
        if match and (match[2] or pattern is _LONG):
            return Part(match[1] + match[2], match[3], match[1], _names_secret(match[1])) if match[2] else _name(word)
    if _SHORT.fullmatch(word):
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
