"""Redact Python source so that it still compiles: names in strings and comments, secrets everywhere."""

from __future__ import annotations

import ast
import io
import tokenize
import warnings
from collections.abc import Callable

_PROSE = {tokenize.STRING, tokenize.COMMENT} | (
    {tokenize.FSTRING_MIDDLE} if hasattr(tokenize, "FSTRING_MIDDLE") else set()
)


def in_python(text: str, everywhere: Callable[[str], str], in_prose: Callable[[str], str]) -> str:
    """`text` redacted by `everywhere`; its strings and comments also by `in_prose`."""
    plain = everywhere(text)
    redacted = _each_token(plain, in_prose, in_prose)
    if redacted == text or _compiles(redacted) or not _compiles(text):
        return redacted

    def whole(literal: str) -> str:
        return in_prose(everywhere(literal))

    # A replaced passage splits an escape, or crosses the end of a string: redact literal by literal.
    by_token = _each_token(text, lambda literal: _literal(literal, whole), whole)
    return by_token if everywhere(by_token) == by_token and _compiles(by_token) else redacted


def _compiles(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _literal(literal: str, redact: Callable[[str], str]) -> str:
    """A redacted string literal; written again with `repr` if redaction broke it."""
    redacted = redact(literal)
    if redacted == literal or _compiles(redacted):
        return redacted
    try:
        value = ast.literal_eval(literal)
    except (SyntaxError, ValueError):
        return redacted
    return repr(redact(value)) if isinstance(value, str) else redacted


def _each_token(text: str, of_string: Callable[[str], str], of_comment: Callable[[str], str]) -> str:
    """`text` with its strings and comments replaced; as one comment if it is not valid Python."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return of_comment(text)
    lines = text.splitlines(keepends=True)
    for token in reversed(tokens):
        if token.type in _PROSE:
            replaced = (of_comment if token.type == tokenize.COMMENT else of_string)(token.string)
            if replaced != token.string:
                _splice(lines, token, replaced)
    return "".join(lines)


def _splice(lines: list[str], token: tokenize.TokenInfo, replaced: str) -> None:
    """Put `replaced` in the place of `token` in `lines`."""
    (first, start), (last, end) = token.start, token.end
    head, tail = lines[first - 1][:start], lines[last - 1][end:]
    lines[first - 1 : last] = [head + replaced + tail, *[""] * (last - first)]
