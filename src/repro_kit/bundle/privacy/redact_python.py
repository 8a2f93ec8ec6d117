"""Redact Python source so that it still compiles and means the same: code keeps its names, unless they are secrets."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable

from repro_kit.bundle.privacy.python_parts import NUMBER, STRING, literal_spans, parts_of

Redact = Callable[[str], str]


def in_python(text: str, in_code: Redact, in_prose: Redact) -> str:
    """`text` with its strings, comments and numbers redacted by `in_prose`, then all of it by `in_code`.

    All of it, because a secret may begin in one string and end in the next.
    """
    parts = parts_of(text)
    if parts is None:
        return in_code(in_prose(text))
    pieces: list[str] = []
    at = 0
    for part in parts:
        redact = _REDACT_BY_KIND.get(part.kind, _plain)
        pieces += [text[at : part.start], redact(text[part.start : part.end], in_prose)]
        at = part.end
    return in_code("".join([*pieces, text[at:]]))


def _plain(comment: str, redact: Redact) -> str:
    return redact(comment)


def _string(literal: str, redact: Redact) -> str:
    """A redacted string; written again if a replaced passage split an escape, or took a quote with it."""
    redacted, at = "", 0
    for start, end in literal_spans(literal):
        redacted += literal[at:start] + redact(literal[start:end])
        at = end
    redacted += literal[at:]
    return redacted if redacted == literal or _compiles(redacted) else _written_again(literal, redacted, redact)


def _written_again(literal: str, redacted: str, redact: Redact) -> str:
    """The literal of the redacted value; of the text `redacted`, if there is no value or nothing is replaced in it."""
    try:
        value = ast.literal_eval(literal)
    except (SyntaxError, ValueError):  # an f-string
        return repr(redacted)
    if isinstance(value, bytes):
        plain = value.decode("latin-1")
        return repr(_replaced(plain, redacted, redact).encode("latin-1", "replace"))
    return repr(_replaced(value, redacted, redact))


def _replaced(value: str, otherwise: str, redact: Redact) -> str:
    replaced = redact(value)
    return otherwise if replaced == value else replaced


def _number(literal: str, redact: Redact) -> str:
    """A number, or another number that shows the token, which alone would be a name."""
    redacted = redact(literal)
    return literal if redacted == literal else f'len("{redacted}")'


def _compiles(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


_REDACT_BY_KIND = {NUMBER: _number, STRING: _string}
