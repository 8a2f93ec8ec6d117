"""Tell what was drawn at random from what somebody wrote."""

from __future__ import annotations

import re

#: Written by people: words, with a capital or not, and the rest of a number.
_WORD = re.compile(r"[A-Z][a-z]{2,}|[a-z]{3,}|[A-Z]{4,}(?![a-z])")
_SEGMENT = re.compile(r"[A-Za-z0-9]+")
#: Keys of the compiler's caches (base 32), mangled C++ names, checksums and addresses stand in every log.
_COMPILERS = re.compile(r"[a-z]?[a-z2-7]{50,52}|_?Z[A-Z]+\d.*|(0x)?[0-9a-f]+|[0-9A-F]+|\d+")
_CHANGE = re.compile(r"(?<=\d)(?=[A-Za-z])|(?<=[A-Za-z])(?=\d)")  # between letters and digits

_RANDOM = 0.5  # share of characters that belong to no word
_CHANGES = 4  # of that kind, which hardly any word has
_ANYWHERE = 16  # characters from which a random string counts wherever it stands
_IN_CONTEXT = 8  # where its place says that it is a secret


def random_segments(text: str) -> list[str]:
    """The parts of `text` that are random by themselves: upper and lower case and digits, and hardly a word."""
    return [it for it in _SEGMENT.findall(text) if len(it) >= _ANYWHERE and _has_all(it) and _is_wordless(it)]


def is_compilers(text: str) -> bool:
    """Whether `text` is of a form that compilers write: a cache key, a mangled name, a checksum, an address."""
    return _COMPILERS.fullmatch(text) is not None


def is_random(value: str) -> bool:
    """Whether `value` is random where its place makes a secret likely: letters and digits, and hardly a word."""
    plain = "".join(_SEGMENT.findall(value))
    mixed = any(map(str.isalpha, plain)) and sum(map(str.isdigit, plain)) >= 2
    return len(plain) >= _IN_CONTEXT and mixed and (_share(plain) >= _RANDOM or len(_CHANGE.findall(plain)) >= _CHANGES)


def _has_all(text: str) -> bool:
    return any(map(str.isdigit, text)) and any(map(str.isupper, text)) and any(map(str.islower, text))


def _is_wordless(text: str) -> bool:
    return not is_compilers(text) and _share(text) >= _RANDOM


def _share(text: str) -> float:
    return len(_WORD.sub("", text)) / len(text)
